"""Events of loops."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from .base import NodeEvent


class NodeRunLoopStartedEvent(NodeEvent):
    """The loop begins."""

    node_title: str
    start_at: datetime
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    predecessor_node_id: str | None = None


class NodeRunLoopNextEvent(NodeEvent):
    """The next item or round begins."""

    node_title: str
    index: int
    pre_loop_output: Any = None


class _Ended(NodeEvent):
    """What both ends have."""

    node_title: str
    start_at: datetime
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    outputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    steps: int = 0


class NodeRunLoopSucceededEvent(_Ended):
    """The loop has succeeded."""


class NodeRunLoopFailedEvent(_Ended):
    """The loop has failed."""

    error: str
