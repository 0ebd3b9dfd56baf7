"""Tidemill runs Dify workflow files.

`Engine` runs them inside this process, without Redis and without a port. `Worker` executes nodes of a fleet; `Client`
and `AsyncClient` call a fleet over HTTP. Functions of yours can execute nodes::

    from tidemill import Engine

    engine = Engine()

    @engine.node("llm")
    def answer(ctx):
        return {"text": f"{ctx.title} says hello"}

    run = engine.run("workflow.yml", {"name": "Ada"})
    for event in run:
        print(event.type, event.data)
    print(run.result())
"""

from __future__ import annotations

import sys
import sysconfig
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sysconfig.get_config_var("Py_GIL_DISABLED") and sys.version_info < (3, 15):
    raise ImportError(
        "tidemill does not run on free-threaded Python: its module has the stable ABI, which free-threaded builds do "
        "not load; use the usual build of Python"
    )

# Later versions refuse it themselves, with a sentence of their own.
if sys.version_info < (3, 12):
    from tidemill import _interpreter

    _interpreter.refuse_subinterpreters()

if TYPE_CHECKING:
    from tidemill._native import log as log
    from tidemill.client import AsyncClient as AsyncClient
    from tidemill.client import Client as Client
    from tidemill.engine import Engine as Engine
    from tidemill.engine import Run as Run
    from tidemill.errors import Refused as Refused
    from tidemill.errors import RunFailed as RunFailed
    from tidemill.errors import RunPaused as RunPaused
    from tidemill.errors import RunStopped as RunStopped
    from tidemill.errors import TidemillError as TidemillError
    from tidemill.events import Event as Event
    from tidemill.nodes import Chunk as Chunk
    from tidemill.nodes import NodeContext as NodeContext
    from tidemill.nodes import NodeResult as NodeResult
    from tidemill.nodes import Pause as Pause
    from tidemill.worker import Worker as Worker

    __version__: str

#: The module of each name. A module is imported when a name of it is first used: a client needs no native module, and
#: an engine no library for HTTP.
_MODULES = {
    "AsyncClient": "tidemill.client",
    "Chunk": "tidemill.nodes",
    "Client": "tidemill.client",
    "Engine": "tidemill.engine",
    "Event": "tidemill.events",
    "NodeContext": "tidemill.nodes",
    "NodeResult": "tidemill.nodes",
    "Pause": "tidemill.nodes",
    "Refused": "tidemill.errors",
    "Run": "tidemill.engine",
    "RunFailed": "tidemill.errors",
    "RunPaused": "tidemill.errors",
    "RunStopped": "tidemill.errors",
    "TidemillError": "tidemill.errors",
    "Worker": "tidemill.worker",
    "log": "tidemill._native",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = import_module("tidemill._native").version()
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'tidemill' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "__version__"})


__all__ = [
    "AsyncClient",
    "Chunk",
    "Client",
    "Engine",
    "Event",
    "NodeContext",
    "NodeResult",
    "Pause",
    "Refused",
    "Run",
    "RunFailed",
    "RunPaused",
    "RunStopped",
    "TidemillError",
    "Worker",
    "__version__",
    "log",
]
