"""Events of edges."""

from __future__ import annotations

from .base import EngineEvent


class _EdgeEvent(EngineEvent):
    """What both events of an edge have."""

    frame_id: str
    edge_id: str
    source_node_id: str
    target_node_id: str
    source_handle: str | None = None


class GraphEdgeTakenEvent(_EdgeEvent):
    """The run follows this edge."""


class GraphEdgeSkippedEvent(_EdgeEvent):
    """The run does not follow this edge."""
