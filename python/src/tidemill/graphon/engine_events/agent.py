"""Events of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from .base import NodeEvent


class NodeRunAgentLogEvent(NodeEvent):
    """A step of an agent."""

    message_id: str
    label: str
    node_execution_id: str
    parent_id: str | None = None
    error: str | None = None
    status: str
    data: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
