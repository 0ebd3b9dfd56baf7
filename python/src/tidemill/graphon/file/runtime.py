"""The adapter with which a program resolves files. It is kept for the program, and not called by the engine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_RUNTIME: ContextVar[Any] = ContextVar("tidemill_graphon_file_runtime", default=None)


@contextmanager
def use_workflow_file_runtime(runtime: Any) -> Generator[None]:
    """Set the adapter within a block."""
    token = _RUNTIME.set(runtime)
    try:
        yield
    finally:
        _RUNTIME.reset(token)


def peek_workflow_file_runtime() -> Any:
    """Return the adapter; None if there is none."""
    return _RUNTIME.get()
