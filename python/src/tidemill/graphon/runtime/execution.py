"""The status of a run (started, paused, aborted, failed), as programs read it from the state."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..entities.pause_reason import PauseReason

ROOT_FRAME_ID = "root"
"""The frame outside of all iterations and loops."""


@dataclass
class GraphExecution:
    """Where a run stands."""

    workflow_id: str
    started: bool = False
    completed: bool = False
    aborted: bool = False
    paused: bool = False
    pause_reasons: list[PauseReason] = field(default_factory=list)
    error: Exception | None = None
    exceptions_count: int = 0

    @property
    def is_paused(self) -> bool:
        """True while the run waits."""
        return self.paused

    @property
    def has_error(self) -> bool:
        """True once the run has failed or was stopped."""
        return self.error is not None
