"""Filters of a run's events: the answer's texts in their order."""

from .builtin.response_stream import ResponseStreamFilter
from .chain import filter_engine_events
from .protocol import EngineEventFilter, EngineEventFilterContext

__all__ = [
    "EngineEventFilter",
    "EngineEventFilterContext",
    "ResponseStreamFilter",
    "filter_engine_events",
]
