"""Why a run pauses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .._strenum import StrEnum


class PauseReasonType(StrEnum):
    """The kind of a reason."""

    LEGACY_HUMAN_INPUT_REQUIRED = "human_input_required"
    HITL_REQUIRED = "hitl_required"
    SCHEDULED_PAUSE = "scheduled_pause"


class HitlRequired(BaseModel):
    """A node waits for a person."""

    TYPE: Literal[PauseReasonType.HITL_REQUIRED] = PauseReasonType.HITL_REQUIRED
    session_id: str
    node_id: str
    node_title: str


class SchedulingPause(BaseModel):
    """A command has paused the run."""

    TYPE: Literal[PauseReasonType.SCHEDULED_PAUSE] = PauseReasonType.SCHEDULED_PAUSE
    message: str


PauseReason = Annotated[HitlRequired | SchedulingPause, Field(discriminator="TYPE")]
