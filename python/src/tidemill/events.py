"""`Event`: one event of a run. Its data becomes Python objects only when it is read, as most readers look at few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tidemill._native import NativeEvent

__all__ = ["Event"]


class Event:
    """One event of a run, as in the native API: `type`, `data`, `seq` (from 1) and `time` (seconds since 1970)."""

    __slots__ = ("_data", "_native", "seq", "time", "type")

    def __init__(self, native: NativeEvent) -> None:
        self._native = native
        self._data: dict[str, Any] | None = None
        #: Such as `node_run_started` or `graph_run_succeeded`.
        self.type: str = native.type
        #: The position among the events of the run, from 1.
        self.seq: int = native.seq
        #: Seconds since 1970.
        self.time: float = native.time

    @property
    def data(self) -> dict[str, Any]:
        """The fields of the event; docs/api.md lists them by type."""
        data = self._data
        if data is None:
            data = self._data = self._native.data()
        return data

    @property
    def node_id(self) -> str | None:
        """The node of the event; `None` for events of the run."""
        node: str | None = self.data.get("node_id")
        return node

    @property
    def is_last(self) -> bool:
        """True if no event follows."""
        return self.type in _LAST

    def json(self, times: Literal["iso", "unix"] = "iso") -> dict[str, Any]:
        """The event as a document `{"type", "data"}`, with the types and fields of graphon's events.

        Times are ISO 8601 in UTC, or with `times="unix"` seconds since 1970.
        """
        return self._native.document(times)

    def __repr__(self) -> str:
        return f"<Event {self.seq} {self.type}>"


_LAST = frozenset(("graph_run_succeeded", "graph_run_partial_succeeded", "graph_run_failed", "graph_run_aborted"))
