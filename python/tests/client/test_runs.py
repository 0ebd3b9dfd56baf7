"""Runs on a real fleet, through both clients."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidemill.client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    InvalidWorkflow,
    NotFound,
    RunOver,
    Unauthorized,
)
from tidemill.client.follow import Follow
from tidemill.errors import RunFailed, RunPaused, RunStopped

from . import document
from .flows import ASKING, GREETING, end, flow, template
from fleet import EXAMPLES, ROOT, Fleet, until


def test_a_run_has_events_and_outputs(client: Client) -> None:
    run = client.run(EXAMPLES / "hello.yml", {"name": "Ada"}, user="me")
    events = list(run)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[0].type, events[-1].type) == ("graph_run_started", "graph_run_succeeded")
    assert all(event.run_id == run.id and abs(event.time - time.time()) < 600 for event in events)
    assert run.result() == {"greeting": "Hello, Ada!"}
    # Again, after all events were read.
    assert run.result() == {"greeting": "Hello, Ada!"}
    shown = run.show(values=True)
    assert (shown["status"], shown["user"], shown["inputs"]) == (
        "succeeded",
        "me",
        {"name": "Ada", "language": None},
    )
    assert shown["nodes"][1]["outputs"] == {"output": "Hello, Ada!"}
    assert run.show()["outputs"] == {"greeting": "Hello, Ada!"}
    for stored in events:
        assert [event.seq for event in run.events(after=stored)] == list(range(stored.seq + 1, len(events) + 1))


async def test_the_asynchronous_client_does_the_same(asynchronous: AsyncClient) -> None:
    run = await asynchronous.run(GREETING, {"name": "Ada"})
    events = [event async for event in run]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert await run.result() == {"out": "Hello, Ada!"}
    assert (await run.show())["status"] == "succeeded"
    found = [shown["id"] async for shown in asynchronous.runs(status="succeeded")]
    assert run.id in found
    with pytest.raises(RunOver):
        await run.stop()


def test_every_event_is_as_documented(client: Client) -> None:
    for event in client.run(GREETING, {"name": "A"}):
        value = {
            "type": event.type,
            "data": event.data,
            "id": event.position.partition("/")[0],
            "run_id": event.run_id,
            "seq": event.seq,
            "ts": int(event.time * 1000),
        }
        document.check("Event", value)


def test_a_refused_workflow_has_its_problems(client: Client) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        client.run("app: {mode: workflow, name: x}\nkind: app\nworkflow: {graph: {nodes: 1}}\n")
    assert refused.value.code == "invalid_workflow"
    assert refused.value.diagnostics[0]["severity"] == "error"
    with pytest.raises(InvalidRequest, match="surname"):
        client.run(GREETING, extra={"surname": 1})
    with pytest.raises(NotFound):
        client.run(app="none")
    with pytest.raises(NotFound):
        list(client.open("01a2163f-a215-76f7-b5fc-3c256c3a8000"))


def test_a_wrong_key_is_refused(fleet: Fleet) -> None:
    with (
        Client(fleet.url, "a-wrong-key-of-the-tests") as client,
        pytest.raises(Unauthorized, match="invalid"),
    ):
        client.apps.all()


def test_a_run_begins_once_under_a_key(client: Client) -> None:
    one, two = (client.run(GREETING, {"name": "A"}, idempotency_key="order-4711") for _ in range(2))
    assert one.id == two.id
    with pytest.raises(Conflict) as other:
        client.run(GREETING, {"name": "B"}, idempotency_key="order-4711")
    assert other.value.code == "idempotency_conflict"


def test_a_failed_run_raises_with_its_error(client: Client) -> None:
    run = client.run(flow(template("{{ 1 / 0 }}"), end("greet", "output")), {"name": "A"})
    with pytest.raises(RunFailed) as failed:
        run.result(60)
    assert (failed.value.run_id, failed.value.status) == (run.id, "failed")
    assert failed.value.error


def test_a_form_is_answered_and_the_run_continues(client: Client) -> None:
    run = client.run(ASKING)
    with pytest.raises(RunPaused) as paused:
        run.result(60)
    (pause,) = paused.value.pauses
    assert pause["node_id"] == "ask"
    assert [event.type for event in run.events(until_paused=True)][-1] == "graph_run_paused"
    with pytest.raises(InvalidRequest) as misfit:
        run.answer(pause["pause_id"], {"action": "maybe"})
    assert misfit.value.errors
    run.answer(pause["pause_id"], {"action": "ok", "inputs": {"note": "well"}, "key": "t-1"})
    run.answer(pause["pause_id"], {"action": "ok", "inputs": {"note": "well"}, "key": "t-1"})
    # Another client reads the old pause, too, and knows that it was answered.
    assert client.open(run.id).result(60) == {"out": "well"}
    assert run.result(60) == {"out": "well"}
    assert [pause["status"] for pause in run.pauses()] == ["answered"]
    with pytest.raises(Conflict):
        run.answer(pause["pause_id"], {"action": "ok", "inputs": {"note": "late"}})


async def test_a_form_is_answered_asynchronously(asynchronous: AsyncClient) -> None:
    run = await asynchronous.run(ASKING)
    with pytest.raises(RunPaused) as paused:
        await run.result(60)
    await run.answer(paused.value.pauses[0]["pause_id"], {"action": "ok", "inputs": {"note": "x"}})
    assert await run.result(60) == {"out": "x"}


def test_a_waiting_run_is_moved_changed_and_stopped(client: Client) -> None:
    run = client.run(ASKING)
    with pytest.raises(RunPaused):
        run.result(60)
    other = client.resume(run.snapshot())
    assert other.id != run.id
    run.update({"start.name": "new"})
    run.stop("enough")
    with pytest.raises(RunStopped) as stopped:
        run.result(60)
    assert "enough" in stopped.value.error
    pause = until(lambda: next(iter(other.pauses()), None), "the pause of the imported run")
    other.answer(pause["pause_id"], {"action": "ok", "inputs": {"note": "here"}})
    assert other.result(60) == {"out": "here"}
    with pytest.raises(RunOver):
        other.snapshot()


def test_a_run_is_paused_and_resumed_by_command(client: Client) -> None:
    run = client.run(GREETING, {"name": "A"}, commands=[{"after": "start", "command": "pause"}])
    with pytest.raises(RunPaused) as paused:
        run.result(60)
    assert paused.value.pauses == []
    run.resume()
    assert run.result(60) == {"out": "Hello, A!"}


def test_a_result_that_takes_too_long_leaves_the_run(client: Client) -> None:
    run = client.run(EXAMPLES / "hello.yml", {"name": "x"}, commands=[{"after": "1754300000001", "command": "pause"}])
    until(lambda: run.show()["status"] == "paused", "the pause")
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="it goes on"):
        for _ in client._transport.follow(Follow(run.id), begun + 0.5):
            pass
    assert time.monotonic() - begun < 20
    run.resume()
    assert run.result(60) == {"greeting": "Hello, x!"}


def test_a_client_is_used_by_many_threads(client: Client) -> None:
    def one(number: int) -> str:
        return str(client.run(GREETING, {"name": str(number)}).result(60)["out"])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(24))) == [f"Hello, {number}!" for number in range(24)]


def test_the_client_needs_no_native_module() -> None:
    program = (
        "import sys; sys.modules['tidemill._native'] = None\n"
        "from tidemill import Client\nfrom tidemill.client import AsyncClient\n"
        "import tidemill\nprint(Client('http://a', 'k'), sorted(dir(tidemill))[0])\n"
    )
    path = str(ROOT / "python/src")
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["<Client", "http://a>"]), done.stderr
