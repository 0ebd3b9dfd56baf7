"""What all events have: the base classes by which programs filter them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, PrivateAttr

from ..enums import NodeType
from ..node_events.base import NodeRunResult


class EngineEvent(BaseModel):
    """An event of a run."""

    container_id: str = ""
    """The iteration or loop directly around; empty outside of containers."""

    _texts_before: list[Any] = PrivateAttr(default_factory=list)
    """Pieces of the answer that only a response filter shows, in front of this event."""


class NodeEvent(EngineEvent):
    """An event about one execution of a node."""

    id: str
    node_id: str
    node_type: NodeType
    node_version: str = "1"
    node_run_result: NodeRunResult = Field(default_factory=NodeRunResult)
