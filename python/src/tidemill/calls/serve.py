"""Makes a function of a Call class, so that engines and workers execute it like other functions for nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import ValidationError

from tidemill.calls.core import CoreCall
from tidemill.calls.errors import CallError
from tidemill.calls.models import CallOutputChunk, CallVars, DataBase, NodeInfo
from tidemill.calls.standard import check, manifest
from tidemill.nodes import Chunk, NodeContext, NodeResult

__all__ = ["CONFIG_KEY", "Operation", "serve"]

Operation = Callable[[NodeContext], AsyncIterator[Any]]

#: The key of an input under which the fields of a Call go from `_init` to `_exec`, which may run elsewhere.
CONFIG_KEY = "_config"


def serve(call: Any) -> tuple[str, dict[str, Any], Operation]:
    """Returns the id of a Call, its manifest, and the function that executes its operations.

    Raises `CallStandardError` for a class that does not meet the standard.
    """
    cls = check(call)

    async def operate(ctx: NodeContext) -> AsyncIterator[Any]:
        operation = ctx.config.get("operation")
        node = NodeInfo(id=ctx.node_id, name=ctx.title, callId=cls.call_id)
        if operation == "init":
            yield NodeResult(outputs=await _init(cls, ctx, node))
            return
        given = dict(ctx.inputs)
        served = _made(cls, given.pop(CONFIG_KEY, None) or {}, node)
        served.input = given
        if operation == "after_exec":
            await served._after_exec(given)  # pyright: ignore[reportPrivateUsage]
            return
        async for piece in _exec(served, given):
            yield piece

    operate.__qualname__ = f"{cls.__qualname__}._exec"
    return cls.call_id, manifest(cls), operate


async def _init(cls: type[CoreCall], ctx: NodeContext, node: NodeInfo) -> dict[str, Any]:
    """Returns the input of a Call, with its configuration."""
    served = _made(cls, ctx.inputs, node)
    found: Any = await served._init(  # pyright: ignore[reportPrivateUsage]
        CallVars.model_validate(ctx.config.get("call_vars") or {})
    )
    if not isinstance(found, DataBase):
        raise TypeError(f"{cls.__name__}._init must return a DataBase, not {type(found).__name__}")
    made = found.model_dump(mode="json", by_alias=True, exclude_none=True)
    config = served.model_dump(mode="json", exclude_defaults=True)
    return {**made, CONFIG_KEY: config} if config else made


async def _exec(served: CoreCall, given: dict[str, Any]) -> AsyncIterator[Any]:
    """Yields the texts of a Call, and at the end its object, if the last piece was one."""
    content: str | dict[str, Any] = ""
    was_object = False
    pieces: Any = served._exec(given)  # pyright: ignore[reportPrivateUsage]
    try:
        async for piece in pieces:
            if not isinstance(piece, CallOutputChunk):
                raise TypeError(f"{type(served).__name__}._exec must yield CallOutputChunk, not {type(piece).__name__}")
            if isinstance(piece.content, dict):
                content, was_object = piece.content, True
                continue
            content = piece.content if isinstance(content, dict) else content + piece.content
            yield Chunk(piece.content)
    finally:
        await pieces.aclose()
    if isinstance(content, dict):
        yield NodeResult(outputs=content)
    elif was_object:
        # The texts before the object are gone, so the pieces that were streamed are not the result.
        yield NodeResult(outputs={"text": content})


def _made(cls: type[CoreCall], params: dict[str, Any], node: NodeInfo) -> CoreCall:
    """Returns an object with these parameters; a wrong one is a `CallError` that names it, and not its value."""
    try:
        return cls.instance(params, node)
    except ValidationError as error:
        wrong = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()]
        raise CallError(f"{cls.call_id}: wrong parameters: {'; '.join(wrong)}") from None
