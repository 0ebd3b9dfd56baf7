"""The classes that programs written for graphon 0.8 use, over Tidemill's engine.

A program changes ``graphon`` to ``tidemill.graphon`` in its imports, and runs. docs/python-graphon.md lists what
differs. It needs pydantic 2, and PyYAML for :mod:`tidemill.graphon.dsl`: ``pip install 'tidemill[graphon]'``.
"""

from .engine import Engine
from .engine._core import close_engines, use_engine
from .errors import CustomNodeError, GraphonDifference
from .graph import Graph
from .runtime.init_params import InitParams
from .runtime.runtime_state import RuntimeState
from .runtime.variable_pool import VariablePool

GraphEngine = Engine
"""The name before graphon 0.8."""
GraphRuntimeState = RuntimeState
"""The name before graphon 0.8."""
GraphInitParams = InitParams
"""The name before graphon 0.8."""

__all__ = [
    "CustomNodeError",
    "Engine",
    "Graph",
    "GraphEngine",
    "GraphInitParams",
    "GraphRuntimeState",
    "GraphonDifference",
    "InitParams",
    "RuntimeState",
    "VariablePool",
    "close_engines",
    "use_engine",
]
