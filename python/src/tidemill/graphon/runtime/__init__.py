"""The variables and the state of a run."""

from .execution import GraphExecution
from .init_params import InitParams
from .read_only_wrappers import ReadOnlyRuntimeStateWrapper, ReadOnlyVariablePoolWrapper
from .runtime_state import RuntimeState
from .runtime_state_protocol import ReadOnlyRuntimeState, ReadOnlyVariablePool
from .variable_pool import VariablePool, VariableValue

__all__ = [
    "GraphExecution",
    "InitParams",
    "ReadOnlyRuntimeState",
    "ReadOnlyRuntimeStateWrapper",
    "ReadOnlyVariablePool",
    "ReadOnlyVariablePoolWrapper",
    "RuntimeState",
    "VariablePool",
    "VariableValue",
]
