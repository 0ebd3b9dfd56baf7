"""Runs each example of examples/python as its head says."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import AsyncGenerator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from fleet import EXAMPLES, ROOT, Fleet, until

PLACE = EXAMPLES / "python"
SECONDS_MAX = 90


def test_every_example_is_listed_and_tried() -> None:
    listed = (PLACE / "README.md").read_text()
    tried = Path(__file__).read_text()
    for file in PLACE.glob("*.py"):
        assert f"[{file.name}]" in listed
        assert f'"{file.name}"' in tried


def test_a_workflow_is_tested_with_a_fake_model() -> None:
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", PLACE / "test_letter.py")
    assert "3 passed" in said


def test_the_timeline_of_a_run_becomes_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "timeline.svg"
    said = python(PLACE / "timeline.py", picture)
    assert "Summary" in said
    texts = [text.text for text in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert {"Letter", "Sort", "Urgent?", "Write", "Summary", "Answer", "End"} <= set(texts)


async def test_a_server_streams_the_pieces_of_a_run_while_it_runs() -> None:
    serve = load("serve.py")
    events = []
    async with serve.app.router.lifespan_context(serve.app):
        async for frame in frames_of(serve.app, {"letter": "How does a tide mill work?"}):
            events.append(json.loads(frame.removeprefix("data: ")))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "graph_run_started"
    assert kinds[-1] == "graph_run_succeeded"
    assert kinds.count("node_run_stream_chunk") > 5


async def test_a_client_that_goes_away_stops_its_run() -> None:
    serve = load("serve.py")
    runs = []
    start = serve.engine.run

    def noted(*given: Any, **more: Any) -> Any:
        runs.append(start(*given, **more))
        return runs[-1]

    serve.engine.run = noted
    async with serve.app.router.lifespan_context(serve.app):
        frames = frames_of(serve.app, {"letter": "How does a tide mill work?"})
        await anext(frames)
        await frames.aclose()
        status = None
        async for event in runs[0]:
            status = event.type
        assert status in ("graph_run_aborted", "graph_run_stopped")


def test_the_worker_with_a_gpu_executes_the_node_of_its_queue(fleet: Fleet) -> None:
    worker = fleet.spawn("gpu", [sys.executable, PLACE / "gpu_worker.py", fleet.redis_url], PYTHONPATH=package())
    with httpx.Client(base_url=fleet.url, headers={"authorization": f"Bearer {fleet.key}"}) as client:
        request = {"workflow": (PLACE / "gpu.yml").read_text(), "inputs": {"text": "tide"}}
        run = client.post("/api/v1/runs", json=request).raise_for_status().json()["id"]

        def shown() -> dict[str, Any] | None:
            assert worker.child.poll() is None, worker.text()
            answer = client.get(f"/api/v1/runs/{run}").raise_for_status().json()
            return answer if answer["status"] not in ("scheduled", "running") else None

        ended = until(shown, "the end of the run")
    assert ended["status"] == "succeeded", ended
    assert ended["outputs"] == {"length": "4"}
    assert worker.stop() == 0, worker.text()


def package() -> str:
    """The folder of the package, as `PYTHONPATH` for other processes."""
    return str(ROOT / "python" / "src")


def python(*arguments: str | Path) -> str:
    """Runs a Python program to its end, and returns its output."""
    environment = {**os.environ, "PYTHONPATH": package(), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def load(name: str) -> ModuleType:
    """Imports an example, each time as a new module."""
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), PLACE / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def frames_of(app: Any, letter: dict[str, str]) -> AsyncGenerator[str, None]:
    """Posts a letter to the server in this process, and yields each frame when it is sent.

    httpx's transport for such servers collects the whole answer first, so this speaks ASGI.
    """
    sent: asyncio.Queue[bytes | None] = asyncio.Queue()
    gone = asyncio.Event()
    asked = False

    async def receive() -> dict[str, object]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": json.dumps(letter).encode(), "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await sent.put(message.get("body", b""))
            if not message.get("more_body"):
                await sent.put(None)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/letters",
        "raw_path": b"/letters",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "server": ("test", 80),
        "client": ("test", 1),
    }
    serving = asyncio.create_task(app(scope, receive, send))
    try:
        while (body := await sent.get()) is not None:
            if body:
                yield body.decode().strip()
    finally:
        gone.set()
        await asyncio.wait_for(serving, SECONDS_MAX)
