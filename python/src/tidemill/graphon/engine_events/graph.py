"""Events of a whole run."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ..entities.pause_reason import PauseReason
from ..entities.workflow_start_reason import WorkflowStartReason
from .base import EngineEvent


class GraphRunStartedEvent(EngineEvent):
    """The run begins, or goes on after a pause."""

    reason: WorkflowStartReason = WorkflowStartReason.INITIAL


class GraphRunSucceededEvent(EngineEvent):
    """The run has succeeded."""

    outputs: dict[str, Any] = Field(default_factory=dict)


class GraphRunFailedEvent(EngineEvent):
    """The run has failed."""

    error: str
    exceptions_count: int = 0


class GraphRunPartialSucceededEvent(EngineEvent):
    """The run has succeeded, and some nodes have failed on the way."""

    exceptions_count: int
    outputs: dict[str, Any] = Field(default_factory=dict)


class GraphRunAbortedEvent(EngineEvent):
    """The run was stopped."""

    reason: str | None = None
    outputs: dict[str, Any] = Field(default_factory=dict)


class GraphRunPausedEvent(EngineEvent):
    """The run waits."""

    reasons: list[PauseReason] = Field(default_factory=list)
    outputs: dict[str, Any] = Field(default_factory=dict)
