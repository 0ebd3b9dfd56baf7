"""Following a run over several connections: which events are new, and what comes after the end of a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidemill.client.errors import ApiError, NotFound, StreamLost, Unavailable, UnreadableAnswer
from tidemill.client.events import Event
from tidemill.client.follow import Follow, Next, Position, Step
from tidemill.client.retries import Retries

RUN = "run-1"
FEW = Retries(attempts=3, seconds=100.0, first=1.0, longest=4.0)


def frame(seq: int, kind: str = "node_run_started", entry: str | None = None, **data: Any) -> bytes:
    """The bytes of an event; with `entry` it is the last of its entry."""
    envelope = {"type": kind, "data": data, "id": "7-0", "run_id": RUN, "seq": seq, "ts": 1500}
    line = f"id: {entry}\n" if entry else ""
    return f"{line}event: {kind}\ndata: {json.dumps(envelope)}\n\n".encode()


def after(follow: Follow) -> str:
    """The place that the next connection names."""
    return follow.request().headers["Last-Event-ID"]


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


def test_a_connection_that_breaks_inside_an_entry_repeats_nothing_and_misses_nothing() -> None:
    follow = Follow(RUN)
    assert after(follow) == "0"
    assert seqs(follow.take(frame(1) + frame(2, entry="5-0") + frame(3))) == [1, 2, 3]
    follow.broken("cut", 0.0)
    assert after(follow) == "5-0"
    assert seqs(follow.take(frame(3) + frame(4, entry="6-0") + frame(5))) == [4, 5]
    assert after(follow) == "6-0"


def test_half_a_frame_of_a_broken_connection_is_dropped() -> None:
    follow = Follow(RUN)
    assert seqs(follow.take(frame(1, entry="5-0") + frame(2)[:-9])) == [1]
    follow.broken("cut", 0.0)
    follow.request()
    assert seqs(follow.take(frame(2, entry="6-0"))) == [2]


def test_an_event_has_its_time_its_data_and_a_place_to_go_on_from() -> None:
    follow = Follow(RUN)
    first, second = follow.take(frame(1, entry="5-0") + frame(2, text="ä"))
    assert first == Event("node_run_started", {}, 1, 1.5, RUN, "5-0/1")
    assert second == Event("node_run_started", {"text": "ä"}, 2, 1.5, RUN, "5-0/2")
    for place in (second, second.position):
        resumed = Follow(RUN, after=place)
        assert after(resumed) == "5-0"
        assert seqs(resumed.take(frame(2) + frame(3, entry="6-0"))) == [3]


@pytest.mark.parametrize(
    ("text", "position"), [("5-0", Position("5-0", 0)), ("5-0/7", Position("5-0", 7)), ("0/0", Position())]
)
def test_a_place_is_an_entry_with_or_without_a_number(text: str, position: Position) -> None:
    assert Position.of(text) == position


@pytest.mark.parametrize("text", ["", "/3", "5-0/x", "5-0/-1"])
def test_another_text_is_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="no place in a run's events"):
        Position.of(text)


def test_a_reset_forgets_what_was_received() -> None:
    follow = Follow(RUN)
    follow.take(frame(1) + frame(2, entry="5-0"))
    events = follow.take(b'event: reset\ndata: {"type": "reset"}\n\n' + frame(2, entry="9-0"))
    assert [(event.type, event.seq) for event in events] == [("reset", 0), ("node_run_started", 2)]
    assert follow.position == "9-0/2"
    follow.take(b'event: reset\ndata: {"type": "reset"}\n\n')
    assert after(follow) == "0"


def test_a_run_that_no_longer_exists_is_an_error() -> None:
    follow = Follow(RUN)
    with pytest.raises(NotFound, match="no longer exists"):
        follow.take(frame(1, entry="5-0") + b'event: gone\ndata: {"type": "gone"}\n\n')


@pytest.mark.parametrize(
    "kind", ["graph_run_succeeded", "graph_run_partial_succeeded", "graph_run_failed", "graph_run_aborted"]
)
def test_nothing_follows_the_last_event(kind: str) -> None:
    follow = Follow(RUN)
    events = follow.take(frame(1) + frame(2, kind, entry="5-0") + frame(3))
    assert seqs(events) == [1, 2]
    assert events[-1].is_last
    assert follow.is_over
    assert follow.ended(0.0) == Next(Step.DONE)


def test_a_pause_ends_the_events_only_if_that_is_wanted() -> None:
    paused = frame(1, "graph_run_paused", entry="5-0")
    follow = Follow(RUN, until_paused=True)
    assert seqs(follow.take(paused + frame(2))) == [1]
    assert follow.is_over
    follow = Follow(RUN)
    assert seqs(follow.take(paused + frame(2))) == [1, 2]


def test_a_scheduler_that_stops_is_left_at_once_and_no_event_is_made_of_it() -> None:
    follow = Follow(RUN, retries=FEW)
    follow.take(frame(1, entry="5-0"))
    assert follow.take(b': this scheduler stops\n\nevent: reconnect\ndata: {"type": "reconnect"}\n\n') == []
    assert follow.ended(1.0) == Next(Step.WAIT, 1.0)
    # The next one may be about to stop, too: that is bounded.
    for pause in (2.0, None):
        follow.request()
        follow.take(b'event: reconnect\ndata: {"type": "reconnect"}\n\n')
        if pause:
            assert follow.ended(1.0) == Next(Step.WAIT, pause)
        else:
            with pytest.raises(StreamLost):
                follow.ended(1.0)


def test_a_connection_without_a_word_asks_whether_the_run_has_ended() -> None:
    follow = Follow(RUN, retries=FEW)
    follow.request()
    assert follow.ended(0.0) == Next(Step.LOOK)
    assert follow.looked("succeeded", 0.0) == Next(Step.DONE)
    assert follow.looked("running", 1.0) == Next(Step.WAIT, 1.0)


def test_events_that_exist_end_with_their_connection() -> None:
    follow = Follow(RUN, live=False)
    assert follow.request().query == {"follow": "false"}
    follow.take(frame(1, entry="5-0"))
    assert follow.ended(0.0) == Next(Step.DONE)
    follow = Follow(RUN, live=False)
    follow.request()
    follow.take(b'event: reconnect\ndata: {"type": "reconnect"}\n\n')
    assert follow.ended(0.0).step is Step.WAIT


def test_attempts_are_bounded_and_counted_from_the_last_sign_of_life() -> None:
    follow = Follow(RUN, retries=FEW)
    follow.take(frame(1, entry="5-0"))
    assert [follow.broken("cut", 1.0).pause for _ in range(2)] == [1.0, 2.0]
    follow.take(b": ping\n\n")
    assert [follow.broken("cut", 1.0).pause for _ in range(2)] == [1.0, 2.0]
    with pytest.raises(StreamLost, match="3 attempts") as lost:
        follow.broken("the server is away", 1.0)
    assert "the server is away" in str(lost.value)
    assert (lost.value.run_id, lost.value.position, lost.value.attempts) == (RUN, "5-0/1", 3)


def test_a_refusal_is_raised_unless_another_attempt_may_help() -> None:
    follow = Follow(RUN, retries=FEW)
    with pytest.raises(NotFound):
        follow.refused(NotFound(404, "not_found", "no run"), 0.0)
    busy = Unavailable(503, "unavailable", "stopping", retry_after=3.0)
    assert follow.refused(busy, 1.0) == Next(Step.WAIT, 3.0)


@pytest.mark.parametrize("data", ["{", "[]", '"x"', '{"seq": "x"}', '{"seq": 1}'])
def test_frames_that_are_no_events_are_an_error_with_the_place(data: str) -> None:
    follow = Follow(RUN)
    with pytest.raises(UnreadableAnswer, match=r"run-1 .*0/0"):
        follow.take(f"data: {data}\n\n".encode())


def test_an_error_in_the_stream_is_raised() -> None:
    error = {"event": "error", "code": "unauthorized", "message": "this API key was revoked", "status": 401}
    with pytest.raises(ApiError, match="revoked") as raised:
        Follow(RUN).take(f"data: {json.dumps(error)}\n\n".encode())
    assert raised.value.status == 401


def test_frames_of_a_newer_server_are_passed_over() -> None:
    assert Follow(RUN).take(b'event: news\ndata: {"type": "news"}\n\n' + frame(1)) != []
