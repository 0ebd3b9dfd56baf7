"""Follows a run over as many connections as it takes. It decides; the shells connect, read and wait.

The server sends an id with the last event of an entry only. A connection that breaks inside an entry is continued after
the entry before it, and the numbers of the events say which of them are known already: so no event is missing and none
comes twice.
"""

from __future__ import annotations

import json
import time as clock
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from tidemill.client.errors import ApiError, NotFound, StreamLost, UnreadableAnswer
from tidemill.client.events import GONE, OVER, PAUSED, RESET, Event
from tidemill.client.request import Request, path
from tidemill.client.retries import OF_STATUS, Retries
from tidemill.client.sse import FRAME_BYTES_MAX, Frame, Reader

RECONNECT = "reconnect"
"""The scheduler stops; the events go on elsewhere."""
PING = "ping"

STREAMS = Retries(attempts=100, seconds=300.0)
"""The usual bounds of a stream: how long it is tried to continue it without a new event."""


class Step(Enum):
    """What follows the end of a connection."""

    DONE = "done"
    LOOK = "look"
    """Ask for the run: the connection ended well and had nothing, as after the last event of a run."""
    WAIT = "wait"


@dataclass(frozen=True)
class Next:
    """The next step, and the pause before it in seconds."""

    step: Step
    pause: float = 0.0


@dataclass(frozen=True)
class Position:
    """A place in the events of a run: an entry, and the number of the last event that is known."""

    entry: str = "0"
    seq: int = 0

    @classmethod
    def of(cls, after: Event | str | None) -> Position:
        """Read the text of an event's `position`, or the plain id of an entry. Raises `ValueError`."""
        if after is None:
            return cls()
        text = after.position if isinstance(after, Event) else after
        entry, _, seq = text.partition("/")
        if not entry or not (seq or "0").isdigit():
            raise ValueError(f"{text!r} is no place in a run's events: give an event, or its position")
        return cls(entry, int(seq or 0))

    def __str__(self) -> str:
        return f"{self.entry}/{self.seq}"


class Follow:
    """The state of following one run."""

    def __init__(
        self,
        run_id: str,
        *,
        after: Event | str | None = None,
        live: bool = True,
        until_paused: bool = False,
        retries: Retries = STREAMS,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.run_id = run_id
        self.is_over = False
        """Whether the caller has got all that it wants."""
        self._at = Position.of(after)
        self._live = live
        self._until_paused = until_paused
        self._retries = retries
        self._bytes_max = frame_bytes_max
        self._reader = Reader(frame_bytes_max)
        self._failures = 0
        self._waited = 0.0
        self._had_frames = False
        self._was_told_to_go = False

    @property
    def position(self) -> str:
        """The place after the last event that was received."""
        return str(self._at)

    def request(self) -> Request:
        """The request of the next connection."""
        self._reader = Reader(self._bytes_max)
        self._had_frames = self._was_told_to_go = False
        query = {} if self._live else {"follow": "false"}
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self._at.entry}
        return Request("GET", path("runs", self.run_id, "events"), query=query, headers=headers)

    def take(self, piece: bytes) -> list[Event]:
        """Take bytes of the connection; return the events that are new. Raises `UnreadableAnswer`."""
        events: list[Event] = []
        try:
            for frame in self._reader.feed(piece):
                if self.is_over:
                    break
                event = self._frame(frame)
                if event is not None:
                    events.append(event)
                    self.is_over = event.is_last or (self._until_paused and event.type == PAUSED)
        except (ValueError, KeyError, TypeError) as error:
            what = f"the stream of run {self.run_id} cannot be read after {self.position}: {error}"
            raise UnreadableAnswer(what) from error
        return events

    def _frame(self, frame: Frame) -> Event | None:
        if frame.comment is not None:
            if frame.comment == PING:
                self._is_well()
            return None
        if frame.event == RECONNECT:
            self._was_told_to_go = True
            return None
        self._is_well()
        if frame.event == GONE:
            raise NotFound(404, "not_found", f"run {self.run_id} no longer exists")
        if frame.event == RESET:
            self._at = Position()
            return Event(RESET, run_id=self.run_id)
        parsed: object = json.loads(frame.data)
        if not isinstance(parsed, dict):
            raise ValueError("an event is not an object")
        envelope = cast("dict[str, Any]", parsed)
        if "seq" not in envelope:
            self._without_number(envelope)
            return None
        kind, seq, time = str(envelope["type"]), int(envelope["seq"]), envelope.get("ts", 0) / 1000
        is_known = seq <= self._at.seq
        self._at = Position(frame.id or self._at.entry, max(seq, self._at.seq))
        if is_known:
            return None
        return Event(kind, envelope.get("data") or {}, seq, time, self.run_id, self.position)

    def _without_number(self, envelope: dict[str, Any]) -> None:
        """Raise the error that a stream ends with. Other frames without a number are of a newer server: pass over."""
        if envelope.get("event") == "error":
            code, message = str(envelope.get("code")), str(envelope.get("message"))
            raise ApiError(int(envelope.get("status") or 500), code, message, details=envelope)

    def _is_well(self) -> None:
        self._failures, self._waited, self._had_frames = 0, 0.0, True

    def ended(self, chance: float) -> Next:
        """Decide after a connection that the server has closed."""
        if self.is_over or (not self._live and not self._was_told_to_go):
            return Next(Step.DONE)
        if not self._had_frames and not self._was_told_to_go:
            return Next(Step.LOOK)
        return self.broken("the server has closed the stream", chance)

    def looked(self, status: str, chance: float) -> Next:
        """Decide when the run was shown with this status, after a connection without anything."""
        if status in OVER:
            return Next(Step.DONE)
        return self.broken("the server has closed the stream without a word", chance)

    def refused(self, error: ApiError, chance: float) -> Next:
        """Decide after a refusal. Raises it unless another attempt may help."""
        if error.status not in OF_STATUS:
            raise error
        return self.broken(error, chance, error.retry_after)

    def broken(self, why: object, chance: float, retry_after: float | None = None) -> Next:
        """Decide after a connection that broke, or was not made. Raises `StreamLost` over the bounds."""
        self._failures += 1
        pause = self._retries.pause(self._failures, self._waited, retry_after, chance)
        if pause is None:
            raise self.lost(why)
        self._waited += pause
        return Next(Step.WAIT, pause)

    def lost(self, why: object) -> StreamLost:
        """The error for a stream that could not be continued."""
        bounds = f"{self._retries.attempts} attempts and {self._retries.seconds:g} s between them (stream_retries)"
        message = f"the events of run {self.run_id} could not be continued after {self.position} within {bounds}: {why}"
        return StreamLost(message, run_id=self.run_id, position=self.position, attempts=self._failures)


def left(deadline: float | None, run_id: str) -> float:
    """The seconds until a deadline, a time of `time.monotonic`. Raises `TimeoutError` after it."""
    if deadline is None:
        return float("inf")
    rest = deadline - clock.monotonic()
    if rest <= 0:
        raise TimeoutError(f"run {run_id} has not ended within the timeout; it goes on")
    return rest
