"""Calls that the tests serve, and a workflow that names one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from tidemill.calls import (
    CallError,
    CallInfo,
    CallOutputChunk,
    CallOutputType,
    CallVars,
    CoreCall,
    DataBase,
    LanguageType,
)

TEXT, DATA = CallOutputType.TEXT, CallOutputType.DATA


class GreetInput(DataBase):
    who: str
    question: str = ""


class GreetOutput(DataBase):
    text: str


class Greet(CoreCall, input_model=GreetInput, output_model=GreetOutput):
    """Says hello in pieces, or in the form that its field `form` names."""

    who: str = "world"
    form: str = "text"

    @classmethod
    def info(cls, language: LanguageType = LanguageType.CHINESE) -> CallInfo:
        return CallInfo(name="Greet" if language is LanguageType.ENGLISH else "问候", description="Says hello")

    async def _init(self, call_vars: CallVars) -> DataBase:
        return GreetInput(who=self.who, question=call_vars.question)

    async def _exec(self, input_data: dict[str, Any]) -> AsyncGenerator[CallOutputChunk, None]:
        if self.form == "error":
            raise CallError(f"{input_data['who']} is not at home", {"door": "closed"})
        yield CallOutputChunk(type=TEXT, content="Hello, ")
        yield CallOutputChunk(type=TEXT, content=input_data["who"])
        if self.form != "text":
            yield CallOutputChunk(type=DATA, content={"greeted": input_data["who"], "question": input_data["question"]})
        if self.form == "text after object":
            yield CallOutputChunk(type=TEXT, content="Bye")


class Careless(Greet, call_id="careless"):
    """Yields something that is no piece."""

    async def _exec(self, input_data: dict[str, Any]) -> AsyncGenerator[Any, None]:
        yield "Hello"


def workflow(call: str, **params: Any) -> dict[str, Any]:
    """A workflow of one step."""
    outputs = [
        {"variable": "text", "value_selector": ["step", "text"]},
        {"variable": "greeted", "value_selector": ["step", "greeted"]},
    ]
    nodes = [
        {"id": "start", "data": {"type": "start", "title": "Start", "variables": []}},
        {"id": "step", "data": {"type": "call", "title": "Step", "node": call, "params": params, "to_user": True}},
        {"id": "end", "data": {"type": "end", "title": "End", "outputs": outputs}},
    ]
    edges = [{"source": "start", "target": "step"}, {"source": "step", "target": "end"}]
    app = {"mode": "workflow", "name": "Greet"}
    return {"app": app, "kind": "app", "version": "0.6.0", "workflow": {"graph": {"nodes": nodes, "edges": edges}}}
