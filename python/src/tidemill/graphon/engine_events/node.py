"""Events of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field, PrivateAttr

from ..entities.pause_reason import PauseReason
from ..variables.variables import Variable
from .base import NodeEvent


class NodeRunStartedEvent(NodeEvent):
    """A node begins."""

    node_title: str
    predecessor_node_id: str | None = None
    start_at: datetime
    extras: dict[str, Any] = Field(default_factory=dict)
    provider_type: str = ""
    provider_id: str = ""


class NodeRunStreamChunkEvent(NodeEvent):
    """A piece of text."""

    selector: Sequence[str]
    chunk: str
    is_final: bool = False

    _is_in_answer: bool = PrivateAttr(default=True)


class NodeRunReasoningChunkEvent(NodeEvent):
    """A piece of a model's reasoning."""

    selector: Sequence[str]
    chunk: str
    is_final: bool = False


class NodeRunModelPollingProgressEvent(NodeEvent):
    """A model's answer is not ready yet. Tidemill sends none."""

    attempt: int
    last_checked_at: datetime
    next_check_at: datetime | None = None


class NodeRunRetrieverResourceEvent(NodeEvent):
    """The passages that a node has found."""

    retriever_resources: Sequence[Mapping[str, Any]]
    context: str


class _Timed(NodeEvent):
    """The times of an end."""

    start_at: datetime
    finished_at: datetime | None = None


class NodeRunSucceededEvent(_Timed):
    """A node has succeeded."""


class NodeRunFailedEvent(_Timed):
    """A node has failed, and the run with it."""

    error: str


class NodeRunExceptionEvent(_Timed):
    """A node has failed, and its error strategy goes on."""

    error: str


class NodeRunVariableUpdatedEvent(NodeEvent):
    """A node has written a variable."""

    variable: Variable


class NodeRunRetryEvent(NodeRunStartedEvent):
    """A node has failed and is tried again."""

    error: str
    retry_index: int


class NodeRunHumanInputFormFilledEvent(NodeEvent):
    """A form was answered."""

    node_title: str
    rendered_content: str
    action_id: str
    action_text: str
    submitted_data: Mapping[str, Any] = Field(default_factory=dict)


class NodeRunHumanInputFormTimeoutEvent(NodeEvent):
    """A form was not answered in time."""

    node_title: str
    expiration_time: datetime


class NodeRunPauseRequestedEvent(NodeEvent):
    """A node waits for an answer."""

    reason: PauseReason


def is_node_result_event(event: NodeEvent) -> bool:
    """Return true for events that end an execution of a node."""
    return isinstance(event, (NodeRunSucceededEvent, NodeRunFailedEvent, NodeRunPauseRequestedEvent))
