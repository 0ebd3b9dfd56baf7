"""The event of a run as a client sees it, and what the names of events say about the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ENDINGS = {
    "graph_run_succeeded": "succeeded",
    "graph_run_partial_succeeded": "partial-succeeded",
    "graph_run_failed": "failed",
    "graph_run_aborted": "stopped",
}
"""The status of a run after each last event."""

PAUSED = "graph_run_paused"
RESET = "reset"
"""Events are gone: forget all earlier ones, the rest begins again with the first that still exists."""

GONE = "gone"
"""The run no longer exists: nothing follows."""

OVER = frozenset(ENDINGS.values())
"""The statuses of runs that have ended."""


@dataclass(frozen=True)
class Event:
    """An event of a run. Of type `reset` it means: forget all earlier events; it has no number."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    seq: int = 0
    """The number of the event in its run, from 1."""
    time: float = 0.0
    """When it happened, in Unix seconds."""
    run_id: str = ""
    position: str = "0/0"
    """The place after this event, for `events(after=…)`, also in another process."""

    @property
    def node_id(self) -> str | None:
        """The node of the event; `None` for events of the run."""
        node: str | None = self.data.get("node_id")
        return node

    @property
    def is_last(self) -> bool:
        """Whether the run has ended with this event."""
        return self.type in ENDINGS
