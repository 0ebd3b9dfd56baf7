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
            "messages": [{"role": message["role"], "content": message["text"]} for message in ctx.messages],
            "stream": True,
            **model.get("completion_params", {}),
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
