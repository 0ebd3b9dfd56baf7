"""Several filters one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...engine_events.base import EngineEvent
from .protocol import EngineEventFilter, EngineEventFilterContext


def filter_engine_events(
    events: Iterable[EngineEvent],
    *,
    context: EngineEventFilterContext,
    filters: Iterable[EngineEventFilter],
) -> Iterator[EngineEvent]:
    """Yield the events that the filters make of these."""
    chain = list(filters)
    for it in chain:
        it.initialize(context)
    for event in events:
        yield from _through(chain, [event])
    for index, it in enumerate(chain):
        yield from _through(chain[index + 1 :], list(it.flush()))


def _through(chain: list[EngineEventFilter], events: list[EngineEvent]) -> list[EngineEvent]:
    for it in chain:
        events = [made for event in events for made in it.on_event(event)]
    return events
