"""The state of a run as layers and filters see it: copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from ..model_runtime.entities.llm_entities import LLMUsage
from ..variables.segments import Segment
from .runtime_state import RuntimeState
from .variable_pool import VariablePool


class ReadOnlyVariablePoolWrapper:
    """The variables of a run, to read."""

    def __init__(self, variable_pool: VariablePool) -> None:
        self._pool = variable_pool

    def get(self, selector: Sequence[str], /) -> Segment | None:
        """Return a copy of a value."""
        return deepcopy(self._pool.get(selector))

    def get_by_prefix(self, prefix: str, /) -> Mapping[str, Any]:
        """Return a copy of a node's values."""
        return self._pool.get_by_prefix(prefix)


class ReadOnlyRuntimeStateWrapper:
    """The state of a run, to read."""

    def __init__(self, state: RuntimeState) -> None:
        self._state = state

    @property
    def variable_pool(self) -> ReadOnlyVariablePoolWrapper:
        """The variables."""
        return ReadOnlyVariablePoolWrapper(self._state.variable_pool)

    @property
    def start_at(self) -> float:
        """When the run began, in Unix seconds."""
        return self._state.start_at

    @property
    def total_tokens(self) -> int:
        """The tokens of all model calls."""
        return self._state.total_tokens

    @property
    def llm_usage(self) -> LLMUsage:
        """What models have used."""
        return self._state.llm_usage

    @property
    def outputs(self) -> dict[str, Any]:
        """The outputs."""
        return self._state.outputs

    @property
    def node_run_steps(self) -> int:
        """How many nodes have begun."""
        return self._state.node_run_steps

    @property
    def exceptions_count(self) -> int:
        """How many attempts of nodes have failed."""
        return self._state.exceptions_count

    @property
    def ready_queue_size(self) -> int:
        """Always 0: the queue of ready nodes is Tidemill's."""
        return 0

    def get_output(self, key: str, default: Any = None) -> Any:
        """Return an output."""
        return self._state.get_output(key, default)

    def dumps(self) -> str:
        """Return the state as a text."""
        return self._state.dumps()
