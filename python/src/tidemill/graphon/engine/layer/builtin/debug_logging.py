"""A layer that logs the events of a run."""

from __future__ import annotations

import logging

from ....engine_events.base import EngineEvent, NodeEvent
from ..base import Layer


class DebugLoggingLayer(Layer):
    """Logs the type, the node and the status of each event; never its values, which may be secret."""

    def __init__(self, level: str = "DEBUG", logger_name: str = "tidemill.graphon") -> None:
        super().__init__()
        self.level = getattr(logging, level)
        self.logger = logging.getLogger(logger_name)

    def on_event(self, event: EngineEvent) -> None:
        """Log an event."""
        node = f" {event.node_id} {event.node_run_result.status.value}" if isinstance(event, NodeEvent) else ""
        self.logger.log(self.level, "%s%s", type(event).__name__, node)
