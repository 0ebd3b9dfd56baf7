"""Calls as classes: a Call is an operation with an id, an input with a schema, and code that runs it.

`Engine.calls` and `Worker.calls` serve them; nodes of the type `call` name them. docs/python-calls.md has an example.
"""

from .core import CoreCall
from .errors import CallError, CallStandardError
from .models import (
    CallIds,
    CallInfo,
    CallOutputChunk,
    CallOutputType,
    CallVars,
    DataBase,
    LanguageType,
    NodeInfo,
)
from .standard import manifest

__all__ = [
    "CallError",
    "CallIds",
    "CallInfo",
    "CallOutputChunk",
    "CallOutputType",
    "CallStandardError",
    "CallVars",
    "CoreCall",
    "DataBase",
    "LanguageType",
    "NodeInfo",
    "manifest",
]
