"""Events of iterations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from .base import NodeEvent


class NodeRunIterationStartedEvent(NodeEvent):
    """The iteration begins."""

    node_title: str
    start_at: datetime
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    predecessor_node_id: str | None = None


class NodeRunIterationNextEvent(NodeEvent):
    """The next item or round begins."""

    node_title: str
    index: int
    pre_iteration_output: Any = None


class _Ended(NodeEvent):
    """What both ends have."""

    node_title: str
    start_at: datetime
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    outputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    steps: int = 0


class NodeRunIterationSucceededEvent(_Ended):
    """The iteration has succeeded."""


class NodeRunIterationFailedEvent(_Ended):
    """The iteration has failed."""

    error: str
