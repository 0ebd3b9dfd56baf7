"""A worker of a fleet with functions in Python: drain, hand-back, take-over, and its place in the fleet."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flows import chain, llm, template, tool
from places import InFleet

from tidemill import NodeContext, TidemillError, Worker

from fleet import ROOT, Fleet, until

#: A worker program. Its function says that it has begun, and ends when the file `go` is there.
PROGRAM = f"""
import os, sys, time
sys.path[:0] = [{str(ROOT / "python" / "src")!r}]
import tidemill
from tidemill import Worker

folder = sys.argv[2]
worker = Worker(settings=sys.argv[1])

@worker.queue("gpu")
def slow(ctx):
    with open(os.path.join(folder, "begun"), "a") as file:
        file.write(f"{{os.getpid()}} {{ctx.execution_id}}\\n")
    while not os.path.exists(os.path.join(folder, "go")) and not ctx.cancelled:
        time.sleep(0.01)
    return {{"text": f"{{ctx.inputs['start.q']}} by {{os.getpid()}}"}}

print("works", flush=True)
worker.run()
print("ended", flush=True)
"""


@pytest.fixture
def own() -> Iterator[Fleet]:
    """A fleet without workers, for one test, with short leases."""
    with Fleet({"worker": {"job_lease_ms": 2_000, "grace_seconds": 2}}) as fleet:
        yield fleet


def spawn(fleet: Fleet, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(fleet.config), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=fleet.environment(),
    )


def begun(folder: Path) -> list[str]:
    file = folder / "begun"
    return file.read_text().splitlines() if file.exists() else []


def flow() -> dict[str, Any]:
    return chain(llm(tidemill={"queue": "gpu"}), template("after", "done"), outputs={"text": "llm.text"})


def outputs_of(place: InFleet, run: str) -> Any:
    events = list(place.events(run))
    assert events[-1].type == "graph_run_succeeded", events[-1]
    return events[-1].data["outputs"]


def test_kill_9_of_a_worker_in_the_middle_loses_nothing(own: Fleet, tmp_path: Path) -> None:
    place = InFleet(own)
    first = spawn(own, tmp_path)
    try:
        runs = [place.submit(flow(), {"q": str(number)}) for number in range(5)]
        until(lambda: len(begun(tmp_path)) == 5, "the functions to begin")
        first.kill()
        first.wait()
        second = spawn(own, tmp_path)
        try:
            (tmp_path / "go").touch()
            for number, run in enumerate(runs):
                assert outputs_of(place, run) == {"text": f"{number} by {second.pid}"}
        finally:
            second.terminate()
            second.wait(60)
    finally:
        first.kill()
    # The same executions, again.
    executions = [line.split()[1] for line in begun(tmp_path)]
    assert len(executions) == 10
    assert set(executions[:5]) == set(executions[5:])


def test_sigterm_drains_a_worker_and_its_jobs_end_or_go_back(own: Fleet, tmp_path: Path) -> None:
    place = InFleet(own)
    first = spawn(own, tmp_path)
    run = place.submit(flow(), {"q": "a"})
    until(lambda: len(begun(tmp_path)) == 1, "the function to begin")
    first.send_signal(signal.SIGTERM)
    # Within the grace period the function ends, and its result counts.
    time.sleep(0.3)
    (tmp_path / "go").touch()
    assert outputs_of(place, run) == {"text": f"a by {first.pid}"}
    assert first.wait(60) == 0
    assert first.stdout is not None
    assert first.stdout.read().split() == ["works", "ended"]

    # One that takes longer is given back, and another worker executes it at once.
    (tmp_path / "go").unlink()
    second = spawn(own, tmp_path)
    run = place.submit(flow(), {"q": "b"})
    until(lambda: len(begun(tmp_path)) == 2, "the function to begin")
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == 0
    third = spawn(own, tmp_path)
    (tmp_path / "go").touch()
    assert outputs_of(place, run) == {"text": f"b by {third.pid}"}
    third.terminate()
    assert third.wait(60) == 0


def test_a_worker_serves_in_an_event_loop_until_it_is_cancelled(own: Fleet) -> None:
    place = InFleet(own)
    worker = Worker(settings=own.config)
    loops: list[Any] = []

    @worker.node("llm")
    async def model(ctx: NodeContext) -> dict[str, Any]:
        loops.append(asyncio.get_running_loop())
        return {"text": ctx.inputs["start.q"]}

    async def main() -> None:
        serving = asyncio.create_task(worker.serve())
        run = await asyncio.to_thread(place.submit, chain(llm()), {"q": "x"})
        assert await asyncio.to_thread(outputs_of, place, run) == {"text": "x"}
        assert loops == [asyncio.get_running_loop()]
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())


def test_another_thread_ends_a_worker_that_runs(own: Fleet) -> None:
    worker = Worker(settings=own.config)
    worker.node("llm")(lambda ctx: None)
    running = threading.Thread(target=worker.run)
    running.start()
    until(lambda: worker._native is not None, "the start")
    worker.stop(grace=0.0)
    running.join(60)
    assert not running.is_alive()


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_worker_that_another_thread_stops_lets_its_functions_end(kind: str, own: Fleet) -> None:
    """`run` sees the stop, too: it must not take threads and loop from functions that still may end."""
    place = InFleet(own)
    worker = Worker(settings=own.config, threads=1)
    begun, goes_on = threading.Event(), threading.Event()

    def function(ctx: NodeContext) -> dict[str, Any]:
        begun.set()
        goes_on.wait(60)
        return {"text": f"by {kind}"}

    async def coroutine(ctx: NodeContext) -> dict[str, Any]:
        begun.set()
        while not goes_on.is_set():
            await asyncio.sleep(0.01)
        return function(ctx)

    worker.node("llm")(function if kind == "function" else coroutine)
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    run = place.submit(chain(llm()), {"q": "x"})
    assert begun.wait(60)
    stopping = threading.Thread(target=worker.stop, args=(60.0,), daemon=True)
    stopping.start()
    # `run` looks five times a second; it waits for the drain.
    running.join(1.0)
    assert running.is_alive()
    goes_on.set()
    for thread in (stopping, running):
        thread.join(60)
        assert not thread.is_alive()
    assert place.show(run)["nodes"][1]["status"] == "succeeded"


def test_a_second_sigterm_ends_a_worker_at_once(own: Fleet, tmp_path: Path) -> None:
    place = InFleet(own)
    process = spawn(own, tmp_path)
    try:
        place.submit(flow(), {"q": "a"})
        until(lambda: len(begun(tmp_path)) == 1, "the function to begin")
        process.terminate()
        # It drains for two seconds. The second signal counts once the first one was seen.
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            process.terminate()
            time.sleep(0.01)
        assert process.returncode == -signal.SIGTERM
    finally:
        process.kill()


def test_serve_leaves_the_handlers_of_the_program(own: Fleet) -> None:
    def mine(number: int, frame: Any) -> None: ...

    seen: dict[bool, Any] = {}

    async def serve(signals: bool) -> None:
        worker = Worker(settings=own.config)
        serving = asyncio.create_task(worker.serve(signals=signals))
        while worker._native is None and not serving.done():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        seen[signals] = signal.getsignal(signal.SIGTERM)
        worker._asked_to_stop.set()
        await serving

    earlier = signal.signal(signal.SIGTERM, mine)
    try:
        for signals in (True, False):
            asyncio.run(serve(signals))
            assert signal.getsignal(signal.SIGTERM) is mine
        assert seen[False] is mine
    finally:
        signal.signal(signal.SIGTERM, earlier)


def test_the_fleet_knows_what_a_worker_executes(own: Fleet) -> None:
    place = InFleet(own)
    with Worker(settings=own.config) as worker:
        pass
    worker = Worker(settings=own.config)
    worker.node(provider="acme")(lambda ctx: {"text": ctx.inputs["text"] + "!"})
    worker.queue("gpu")(lambda ctx: {})
    with worker:
        answer = place._http.get("/api/v1/workers").json()
        assert worker.consumer in json.dumps(answer)
        assert "acme" in json.dumps(answer)
        assert outputs_of(place, place.submit(chain(tool()), {"q": "hi"})) == {"text": "hi!"}
        assert worker.jobs_held == 0
        assert worker.address is None


def test_health_and_metrics_are_served_by_settings(own: Fleet) -> None:
    import httpx

    worker = Worker(own.redis_url, settings={"worker": {"listen": "127.0.0.1:0"}})
    with worker:
        assert worker.address
        text = httpx.get(f"http://{worker.address}/metrics", trust_env=False).text
        assert "tidemill_" in text


def test_a_worker_without_redis_says_so(tmp_path: Path) -> None:
    worker = Worker(f"unix://{tmp_path}/missing.sock")
    with pytest.raises(TidemillError, match="missing"):
        worker.start()
    with pytest.raises(RuntimeError, match="has not started"):
        _ = worker.consumer
