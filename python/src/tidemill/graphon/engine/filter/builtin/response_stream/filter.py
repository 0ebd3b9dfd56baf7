"""The texts of answers and outputs, in their order. Tidemill's engine puts them in order; this filter shows them."""

from __future__ import annotations

from collections.abc import Iterable

from .....engine_events.base import EngineEvent
from .....engine_events.node import NodeRunStreamChunkEvent
from .....engine_events.traversal import GraphEdgeSkippedEvent, GraphEdgeTakenEvent
from ...protocol import EngineEventFilterContext

_STATE = "{}"


class ResponseStreamFilter:
    """Shows the texts of answers and outputs in their order, and hides other pieces of models' texts."""

    def __init__(self, *, pass_unmatched_chunks: bool = False) -> None:
        self._pass_unmatched = pass_unmatched_chunks

    def initialize(self, context: EngineEventFilterContext) -> None:
        """Begin a run."""
        del context

    def on_event(self, event: EngineEvent) -> Iterable[EngineEvent]:
        """Return the texts in front of an event, and the event. Events of edges end here, as in graphon."""
        shown: list[EngineEvent] = list(event._texts_before)  # pyright: ignore[reportPrivateUsage]
        if isinstance(event, (GraphEdgeTakenEvent, GraphEdgeSkippedEvent)):
            return shown
        is_hidden = isinstance(event, NodeRunStreamChunkEvent) and not event._is_in_answer  # pyright: ignore[reportPrivateUsage]
        if not is_hidden or self._pass_unmatched:
            shown.append(event)
        return shown

    def flush(self) -> Iterable[EngineEvent]:
        """Return nothing: no text waits here."""
        return []

    def dumps(self) -> str:
        """Return the state of the filter: it has none."""
        return _STATE

    def loads(self, data: str) -> None:
        """Take the state of a filter: it has none."""
        del data
