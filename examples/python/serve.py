"""A server that streams runs to its clients, with FastAPI: uvicorn serve:app (in examples/python)

The engine lives in the server's process. A client that goes away stops its run.
    curl -N -d '{"letter": "How does a tide mill work?"}' -H 'content-type: application/json' localhost:8000/letters
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from tidemill import Engine, NodeContext, Run

HERE = Path(__file__).parent

engine = Engine()


@engine.node("llm")
async def model(ctx: NodeContext) -> AsyncIterator[str]:
    """In the place of a model: a coroutine on the loop of the server, whose pieces reach the client as they come."""
    if ctx.title == "Sort":
        yield "no"
        return
    for word in f"The answer of {ctx.title} comes word by word.".split(" "):
        await asyncio.sleep(0.02)
        yield word + " "


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with engine:
        yield


app = FastAPI(lifespan=lifespan)


class Letter(BaseModel):
    letter: str


@app.post("/letters")
async def answer(letter: Letter) -> StreamingResponse:
    """Starts a run, and streams its events as they happen."""
    run = engine.run(HERE / "letter.yml", {"letter": letter.letter})
    return StreamingResponse(frames(run), media_type="text/event-stream")


async def frames(run: Run) -> AsyncIterator[str]:
    ended = False
    try:
        async for event in run:
            yield f"data: {json.dumps(event.json())}\n\n"
        ended = True
    finally:
        if not ended:
            run.stop("the client has gone")
