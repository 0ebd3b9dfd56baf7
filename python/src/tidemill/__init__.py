"""Tidemill runs Dify workflow files.

`Engine` runs them inside this process, without Redis and without a port. Functions of yours can execute nodes::

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

if sysconfig.get_config_var("Py_GIL_DISABLED") and sys.version_info < (3, 15):
    raise ImportError(
        "tidemill does not run on free-threaded Python: its module has the stable ABI, which free-threaded builds do not "
        "load; use the usual build of Python"
    )

from tidemill import _process
from tidemill._native import log, version
from tidemill.engine import Engine, Run
from tidemill.errors import Refused, RunFailed, RunPaused, RunStopped, TidemillError
from tidemill.events import Event
from tidemill.nodes import Chunk, NodeContext, NodeResult, Pause

__version__ = version()

__all__ = [
    "Chunk",
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
    "__version__",
    "log",
]
