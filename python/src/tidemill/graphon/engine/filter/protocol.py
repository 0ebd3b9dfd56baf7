"""What a filter of events can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...engine_events.base import EngineEvent
from ...graph.graph import Graph
from ...runtime.read_only_wrappers import ReadOnlyRuntimeStateWrapper

if TYPE_CHECKING:
    from ..engine import Engine


@dataclass(frozen=True)
class EngineEventFilterContext:
    """The run of a filter."""

    graph: Graph
    runtime_state: ReadOnlyRuntimeStateWrapper
    file_runtime: Any = None

    @classmethod
    def from_engine(cls, engine: Engine) -> EngineEventFilterContext:
        """Return the run of an engine."""
        return cls(engine.graph, ReadOnlyRuntimeStateWrapper(engine.runtime_state), engine.file_runtime)


class EngineEventFilter(Protocol):
    """Turns events into other events."""

    def initialize(self, context: EngineEventFilterContext) -> None:
        """Begin a run."""

    def on_event(self, event: EngineEvent) -> Iterable[EngineEvent]:
        """Return what to show instead of an event."""
        ...

    def flush(self) -> Iterable[EngineEvent]:
        """Return what is left at the end."""
        ...
