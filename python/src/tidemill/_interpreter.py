"""Refuses subinterpreters in the versions of Python that do not refuse them themselves."""

from __future__ import annotations

import importlib


def refuse_subinterpreters() -> None:
    """Raises `ImportError` in a subinterpreter, whose threads and objects the engine could not tell from others."""
    try:
        interpreters = importlib.import_module("_xxsubinterpreters")
    except ImportError:
        # A build without subinterpreters.
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "tidemill does not support loading in subinterpreters; import it in the main interpreter, and use threads, "
            "event loops or processes"
        )
