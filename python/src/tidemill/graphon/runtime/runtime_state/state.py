"""The state of a run, and its text form, with which a paused run can go on later or elsewhere."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from typing import Any, cast

from pydantic import BaseModel, Field

from ...entities.pause_reason import PauseReason
from ...enums import NodeState
from ...model_runtime.entities.llm_entities import LLMUsage
from ...variables.variables import SecretVariable
from ..execution import GraphExecution
from ..variable_pool import VariablePool

FORM = 1
"""The version of the text form."""


class _Dump(BaseModel):
    """The text form. Secrets are not in it."""

    tidemill_graphon: int
    workflow_id: str
    start_at: float
    outputs: dict[str, Any]
    node_run_steps: int
    llm_usage: LLMUsage
    variable_pool: VariablePool
    started: bool
    completed: bool
    aborted: bool
    paused: bool
    pause_reasons: list[PauseReason] = Field(default_factory=list)
    error: str | None = None
    exceptions_count: int
    snapshot: str | None = None
    graph_states: dict[str, NodeState] = Field(default_factory=dict)


class RuntimeState:
    """The state of a run: its variables, outputs and counts. The engine keeps it up to date from the run's events."""

    def __init__(
        self,
        *,
        variable_pool: VariablePool,
        start_at: float,
        llm_usage: LLMUsage | None = None,
        outputs: dict[str, Any] | None = None,
        node_run_steps: int = 0,
        workflow_id: str | None = None,
        graph_execution: GraphExecution | None = None,
        **unused: Any,
    ) -> None:
        """Build a state. Queues of graphon (``ready_queue`` and others) are taken and not used.

        Raises:
            ValueError: without ``workflow_id`` and ``graph_execution``, or for a negative number of steps.

        """
        del unused
        if node_run_steps < 0:
            raise ValueError("node_run_steps must not be negative")
        if graph_execution is None:
            if workflow_id is None:
                raise ValueError("give workflow_id or graph_execution")
            graph_execution = GraphExecution(workflow_id=workflow_id)
        elif workflow_id not in (None, graph_execution.workflow_id):
            raise ValueError("workflow_id is not that of graph_execution")
        self.variable_pool = variable_pool
        self.start_at = start_at
        self.node_run_steps = node_run_steps
        self.graph_execution = graph_execution
        self.snapshot: bytes | None = None
        """The paused run as Tidemill keeps it; None while nothing is paused."""
        self.graph_states: dict[str, NodeState] = {}
        """What has become of nodes and edges, by their ids, when the run paused."""
        self._llm_usage = llm_usage or LLMUsage.empty_usage()
        self._outputs = deepcopy(outputs) if outputs else {}

    @property
    def llm_usage(self) -> LLMUsage:
        """What models have used."""
        return self._llm_usage.model_copy()

    def add_llm_usage(self, usage: LLMUsage) -> None:
        """Add to what models have used."""
        if usage.total_tokens > 0:
            self._llm_usage = self._llm_usage.plus(usage)

    @property
    def total_tokens(self) -> int:
        """The tokens of all model calls."""
        return self._llm_usage.total_tokens

    @property
    def exceptions_count(self) -> int:
        """How many attempts of nodes have failed."""
        return self.graph_execution.exceptions_count

    @property
    def outputs(self) -> dict[str, Any]:
        """A copy of the outputs."""
        return deepcopy(self._outputs)

    @outputs.setter
    def outputs(self, value: dict[str, Any]) -> None:
        self._outputs = deepcopy(value)

    def set_output(self, key: str, value: Any) -> None:
        """Set an output."""
        self._outputs[key] = deepcopy(value)

    def get_output(self, key: str, default: Any = None) -> Any:
        """Return a copy of an output."""
        return deepcopy(self._outputs.get(key, default))

    def increment_node_run_steps(self) -> None:
        """Count a node."""
        self.node_run_steps += 1

    def dumps(self) -> str:
        """Return the state as a text, for :meth:`from_snapshot`. Values of secrets are not in it."""
        run = self.graph_execution
        pool = VariablePool(
            variable_dictionary={
                node: {name: it for name, it in variables.items() if not isinstance(it, SecretVariable)}
                for node, variables in self.variable_pool.variable_dictionary.items()
            }
        )
        return _Dump(
            tidemill_graphon=FORM,
            workflow_id=run.workflow_id,
            start_at=self.start_at,
            outputs=self._outputs,
            node_run_steps=self.node_run_steps,
            llm_usage=self._llm_usage,
            variable_pool=pool,
            started=run.started,
            completed=run.completed,
            aborted=run.aborted,
            paused=run.paused,
            pause_reasons=run.pause_reasons,
            error=None if run.error is None else str(run.error),
            exceptions_count=run.exceptions_count,
            snapshot=None if self.snapshot is None else base64.b64encode(self.snapshot).decode(),
            graph_states=self.graph_states,
        ).model_dump_json()

    @classmethod
    def from_snapshot(cls, data: Any, **unused: Any) -> RuntimeState:
        """Read a state that :meth:`dumps` has written.

        Raises:
            ValueError: for the text form of graphon itself, or of a newer Tidemill.

        """
        del unused
        read: Any = json.loads(data) if isinstance(data, (str, bytes)) else data
        form = cast("dict[str, Any]", read).get("tidemill_graphon") if isinstance(read, dict) else None
        if form != FORM:
            raise ValueError(
                f"this is no state of tidemill.graphon (form {FORM}). A run that graphon itself has paused "
                "cannot go on here: let it end there, or start it again"
            )
        dump = _Dump.model_validate(read)
        state = cls(
            variable_pool=dump.variable_pool,
            start_at=dump.start_at,
            llm_usage=dump.llm_usage,
            outputs=dump.outputs,
            node_run_steps=dump.node_run_steps,
            graph_execution=GraphExecution(
                workflow_id=dump.workflow_id,
                started=dump.started,
                completed=dump.completed,
                aborted=dump.aborted,
                paused=dump.paused,
                pause_reasons=dump.pause_reasons,
                error=None if dump.error is None else RuntimeError(dump.error),
                exceptions_count=dump.exceptions_count,
            ),
        )
        state.graph_states = dump.graph_states
        state.snapshot = None if dump.snapshot is None else base64.b64decode(dump.snapshot)
        return state
