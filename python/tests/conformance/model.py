"""A function that executes `llm` nodes: it sends their prompt to a model, and streams the reply."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from thoughts import Filter, split

from tidemill import Chunk, NodeContext, NodeResult

#: Python's types for the types of JSON schemas. A boolean is an `int` in Python only.
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "boolean": (bool,),
}


class ModelRefuses(Exception):
    """The server of the model has answered with an error."""


class ModelBreaksOff(Exception):
    """The reply has no end."""


class LLMNodeError(Exception):
    """A reply that is not what the node asks for. The name of the class is Dify's: branches compare it."""


@dataclass
class _Reply:
    """What has come of a reply."""

    text: list[str] = field(default_factory=list[str])
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict[str, Any])


def _content(ctx: NodeContext, message: dict[str, Any], *, sees: bool) -> Any:
    """What a message says: its text, or a list of parts if it has images. A model that does not see gets no images."""
    if not message["files"] or not sees:
        return message["text"]
    detail = ctx.config["vision"].get("configs", {}).get("detail", "high")
    images = [
        {"type": "image_url", "image_url": {"url": file["remote_url"], "detail": detail}} for file in message["files"]
    ]
    return [*([{"type": "text", "text": message["text"]}] if message["text"] else []), *images]


def _filled(ctx: NodeContext, value: Any) -> Any:
    """A parameter of the model, with its references filled in: a text that is a number then becomes one."""
    if not isinstance(value, str) or "{{#" not in value:
        return value
    text = ctx.render(value)
    try:
        number = json.loads(text)
    except ValueError:
        return text
    return number if isinstance(number, (int, float)) and not isinstance(number, bool) else text


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value fits the parts of JSON schemas that the cases use."""
    types = _TYPES[schema["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    return all(name in value for name in schema.get("required", [])) and all(
        _fits(value[name], of) for name, of in known.items() if name in value
    )


def _structured(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise LLMNodeError(f"Failed to parse structured output (stage=result, path=$): {text}") from error
    if not _fits(found, schema):
        raise LLMNodeError(f"Structured output validation failed (stage=result): {text}")
    return dict(found)


class Model:
    """Asks the server that the settings name for the provider `default`."""

    def __init__(self, settings: str) -> None:
        text = Path(settings).read_text()
        found = re.search(r'\[providers\.default\]\s+base_url = "([^"]+)"', text)
        assert found, "the settings name no provider"
        self._base = urlsplit(found[1])
        features = re.findall(r'\[providers\.default\.models\."([^"]+)"\]\s+features = (\[.*\])', text)
        self._features: dict[str, list[str]] = {name: json.loads(named) for name, named in features}

    def __call__(self, ctx: NodeContext) -> Iterator[Any]:
        schema = self._schema(ctx)
        reply = _Reply()
        if ctx.config.get("reasoning_format") != "separated":
            yield from self._pieces(ctx, schema, reply)
            text, thoughts = "".join(reply.text), ""
        else:
            sort = Filter()
            for piece in self._pieces(ctx, schema, reply):
                yield from map(_shown, sort.push(piece))
            yield from map(_shown, sort.end())
            text, thoughts = split("".join(reply.text))
        counts = {name: reply.usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
        outputs = {
            "text": text,
            "reasoning_content": thoughts,
            "usage": counts,
            "finish_reason": reply.finish,
            "files": [],
        }
        if schema is not None:
            outputs["structured_output"] = _structured(text, schema)
        yield NodeResult(
            outputs=outputs,
            process_data={"prompts": ctx.messages, "usage": counts, "finish_reason": reply.finish},
            metadata={"total_tokens": counts["total_tokens"]},
            tokens=(counts["prompt_tokens"], counts["completion_tokens"]),
        )

    def _schema(self, ctx: NodeContext) -> dict[str, Any] | None:
        """The schema of the reply, if the node wants an object."""
        if not ctx.config.get("structured_output_switch_on"):
            return None
        model = ctx.config["model"]
        if "structured-output" not in self._features.get(model["name"], ["structured-output"]):
            name = f"{model['provider'].rsplit('/', 1)[-1]}/{model['name']}"
            raise LLMNodeError(f"Structured output is not supported by model {name} (stage=capability)")
        return dict(ctx.config["structured_output"]["schema"])

    def _pieces(self, ctx: NodeContext, schema: dict[str, Any] | None, reply: _Reply) -> Iterator[str]:
        """The pieces of the reply's text; everything else goes to `reply`."""
        for event in self._stream(self._question(ctx, schema)):
            reply.usage = event.get("usage") or reply.usage
            for choice in event["choices"]:
                reply.finish = choice["finish_reason"] or reply.finish
                piece = choice["delta"].get("content")
                if piece:
                    reply.text.append(piece)
                    yield piece
        if reply.finish is None:
            raise ModelBreaksOff("the reply of the model has no end")

    def _question(self, ctx: NodeContext, schema: dict[str, Any] | None) -> dict[str, Any]:
        model = ctx.config["model"]
        sees = "vision" in self._features.get(model["name"], [])
        messages = [{"role": message["role"], "content": _content(ctx, message, sees=sees)} for message in ctx.messages]
        question = {
            "model": model["name"],
            "messages": [message for message in messages if message["content"]],
            "stream": True,
            **{name: _filled(ctx, value) for name, value in model.get("completion_params", {}).items()},
        }
        if schema is not None:
            wanted = {"name": "structured_output", "schema": schema}
            question["response_format"] = {"type": "json_schema", "json_schema": wanted}
        return question

    def _stream(self, question: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of the server's answer."""
        server = http.client.HTTPConnection(self._base.netloc, timeout=30)
        try:
            path = f"{self._base.path}/chat/completions"
            server.request("POST", path, json.dumps(question), {"content-type": "application/json"})
            answer = server.getresponse()
            if answer.status != 200:
                raise ModelRefuses(f"the model answers {answer.status}: {answer.read().decode()}")
            for line in answer:
                data = line.decode().strip().removeprefix("data: ")
                if data and data != "[DONE]":
                    yield json.loads(data)
        finally:
            server.close()


def _shown(piece: tuple[str, bool]) -> Chunk:
    text, is_thought = piece
    return Chunk(text, "reasoning_content" if is_thought else "text")
