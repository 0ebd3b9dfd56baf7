"""A function that executes `llm` nodes: it sends their prompt to a model, and streams the reply."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidemill import NodeContext, NodeResult


class ModelRefuses(Exception):
    """The server of the model has answered with an error."""


class ModelBreaksOff(Exception):
    """The reply has no end."""


def _content(ctx: NodeContext, message: dict[str, Any]) -> Any:
    """What a message says: its text, or a list of parts if it has images."""
    if not message["files"]:
        return message["text"]
    detail = ctx.config["vision"]["configs"]["detail"]
    images = [
        {"type": "image_url", "image_url": {"url": file["remote_url"], "detail": detail}} for file in message["files"]
    ]
    return [*([{"type": "text", "text": message["text"]}] if message["text"] else []), *images]


def _filled(ctx: NodeContext, name: str, value: Any) -> Any:
    """A parameter of the model, with its references filled in."""
    text = ctx.render(value) if isinstance(value, str) else value
    return float(text) if name == "temperature" else text


class Model:
    """Asks the server that the settings name for the provider `default`."""

    def __init__(self, settings: str) -> None:
        found = re.search(r'\[providers\.default\]\s+base_url = "([^"]+)"', Path(settings).read_text())
        assert found, "the settings name no provider"
        self._base = urlsplit(found[1])

    def __call__(self, ctx: NodeContext) -> Iterator[Any]:
        usage: dict[str, Any] = {}
        finish: str | None = None
        text: list[str] = []
        for piece in self._stream(ctx):
            usage = piece.get("usage") or usage
            for choice in piece["choices"]:
                finish = choice["finish_reason"] or finish
                said = choice["delta"].get("content")
                if said:
                    text.append(said)
                    yield said
        if finish is None:
            raise ModelBreaksOff("the reply of the model has no end")
        counts = {name: usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
        return NodeResult(
            outputs={
                "text": "".join(text),
                "reasoning_content": "",
                "usage": counts,
                "finish_reason": finish,
                "files": [],
            },
            process_data={"prompts": ctx.messages, "usage": counts, "finish_reason": finish},
            metadata={"total_tokens": counts["total_tokens"]},
            tokens=(counts["prompt_tokens"], counts["completion_tokens"]),
        )

    def _stream(self, ctx: NodeContext) -> Iterator[dict[str, Any]]:
        model = ctx.config["model"]
        body = {
            "model": model["name"],
            "messages": [{"role": message["role"], "content": _content(ctx, message)} for message in ctx.messages],
            "stream": True,
            **{name: _filled(ctx, name, value) for name, value in model.get("completion_params", {}).items()},
        }
        server = http.client.HTTPConnection(self._base.netloc, timeout=30)
        try:
            path = f"{self._base.path}/chat/completions"
            server.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = server.getresponse()
            if answer.status != 200:
                raise ModelRefuses(f"the model answers {answer.status}: {answer.read().decode()}")
            for line in answer:
                data = line.decode().strip().removeprefix("data: ")
                if data and data != "[DONE]":
                    yield json.loads(data)
        finally:
            server.close()
