"""Streams and requests over the death, the restart and the drain of a scheduler: no event is missing or repeated."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemill.client import AsyncClient, Client, Event, Retries, StreamLost, Unreachable

from .flows import flow, model
from fleet import Fleet, Process, program, until

PIECES = 60
#: The text takes three seconds, and what comes is written down by the worker meanwhile.
RULES = [{"match": {}, "chunks": [f"w{number} " for number in range(PIECES)], "chunk_delay_ms": 50}]
WRITING = flow(model("write"), {"id": "end", "type": "answer", "answer": "{{#llm.text#}}"}, mode="advanced-chat")
PATIENT = Retries(attempts=200, seconds=90.0, first=0.05, longest=0.5)


@pytest.fixture(name="own")
def fixture_own(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of one test: its processes may be stopped."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES), encoding="utf-8")
    # A new scheduler takes the shards of a dead one when their leases end.
    with Fleet({"scheduler": {"shard_lease_ms": 2000, "shard_renew_ms": 500}}, model=rules) as fleet:
        fleet.worker()
        yield fleet


def scheduler_of(fleet: Fleet) -> Process:
    return next(process for process in reversed(fleet.processes) if process.name.startswith("scheduler"))


def start_again(fleet: Fleet) -> None:
    """Start a scheduler at the address of the last one."""
    address = fleet.url.removeprefix("http://")
    command = [program("tidemill-scheduler"), "--config", fleet.config, "--listen", address]
    fleet.spawn("scheduler", command).said('"address":"([^"]+)"')


class Reading:
    """Reads the events of a run in a thread."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events: list[Event] = []
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._read, args=(events,), daemon=True)
        self._thread.start()

    def _read(self, events: Iterator[Event]) -> None:
        try:
            for event in events:
                self.events.append(event)
        except Exception as error:
            self.error = error

    def chunks(self) -> list[str]:
        return [event.data["chunk"] for event in self.events if event.type == "node_run_stream_chunk"]

    def wait(self, count: int) -> None:
        until(lambda: len(self.chunks()) >= count or self.error, f"{count} pieces of text")
        assert self.error is None

    def end(self) -> list[Event]:
        self._thread.join(90)
        assert not self._thread.is_alive(), self.events[-1:]
        assert self.error is None
        return self.events


def check_whole(events: list[Event]) -> None:
    assert [event.type for event in events if event.type == "reset"] == []
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "graph_run_succeeded"
    text = "".join(event.data["chunk"] for event in events if event.type == "node_run_stream_chunk")
    assert text == "".join(f"w{number} " for number in range(PIECES))


def test_a_stream_goes_on_after_its_scheduler_was_killed(own: Fleet) -> None:
    with Client(own.url, own.key, retries=PATIENT, stream_retries=PATIENT) as client:
        run = client.run(WRITING, query="go")
        reading = Reading(run.events())
        reading.wait(3)
        scheduler_of(own).kill()
        start_again(own)
        check_whole(reading.end())
        assert run.result(60)["answer"].startswith("w0 w1 ")


def test_a_stream_goes_on_after_its_scheduler_was_drained(own: Fleet) -> None:
    with Client(own.url, own.key, retries=PATIENT, stream_retries=PATIENT) as client:
        run = client.run(WRITING, query="go")
        reading = Reading(run.events())
        reading.wait(3)
        assert scheduler_of(own).stop(30) == 0
        before = len(reading.events)
        assert reading.events[-1].type != "graph_run_succeeded"
        start_again(own)
        events = reading.end()
        assert len(events) > before
        check_whole(events)


async def test_an_asynchronous_stream_goes_on_after_its_scheduler_was_killed(own: Fleet) -> None:
    async with AsyncClient(own.url, own.key, retries=PATIENT, stream_retries=PATIENT) as client:
        run = await client.run(WRITING, query="go")
        events = []
        async for event in run:
            events.append(event)
            if len([event for event in events if event.type == "node_run_stream_chunk"]) == 3:
                scheduler_of(own).kill()
                threading.Thread(target=start_again, args=(own,), daemon=True).start()
        check_whole(events)


def test_another_process_goes_on_after_a_place(own: Fleet) -> None:
    with Client(own.url, own.key, retries=PATIENT, stream_retries=PATIENT) as client:
        run = client.run(WRITING, query="go")
        events = []
        for event in run.events():
            events.append(event)
            if len(events) == 9:
                break
        place = events[-1].position
    with Client(own.url, own.key) as other:
        check_whole([*events, *other.open(run.id).events(after=place)])


def test_a_request_waits_for_a_scheduler_that_starts_again(own: Fleet) -> None:
    with Client(own.url, own.key, retries=PATIENT) as client:
        app = client.apps.publish(WRITING)
        scheduler_of(own).kill()
        threading.Thread(target=start_again, args=(own,), daemon=True).start()
        run = client.run(app=app["id"], query="go")
        assert run.result(90)["answer"]


def test_a_server_that_stays_away_is_an_error_with_the_place(own: Fleet) -> None:
    short = Retries(attempts=3, seconds=1.0, first=0.01)
    with Client(own.url, own.key, retries=short, stream_retries=short) as client:
        run = client.run(WRITING, query="go")
        reading = Reading(run.events())
        reading.wait(2)
        scheduler_of(own).kill()
        until(lambda: reading.error, "the end of the stream")
        lost = reading.error
        assert isinstance(lost, StreamLost)
        assert (lost.run_id, lost.position) == (run.id, reading.events[-1].position)
        with pytest.raises(Unreachable) as away:
            run.show()
        assert not away.value.may_have_happened
        start_again(own)
        check_whole([*reading.events, *run.events(after=lost.position)])
