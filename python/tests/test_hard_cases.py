"""What must not stop an engine: texts that UTF-8 cannot hold, functions that wait for other runs, loops that stand."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from flows import chain, llm, template
from places import in_threads

from tidemill import Engine, NodeContext, Run, RunFailed, TidemillError, _process
from tidemill._loops import Loops
from tidemill._threads import Threads

from fleet import until

SECONDS_MAX = 60


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_error_whose_text_utf_8_cannot_hold_fails_its_node_and_no_thread(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests that run in parallel send their logs to each other as UTF-8.
    monkeypatch.setattr(logging.getLogger("tidemill"), "disabled", True)

    def function(ctx: NodeContext) -> None:
        raise ValueError("name \udc80")

    async def coroutine(ctx: NodeContext) -> None:
        function(ctx)

    with Engine(threads=1) as engine:
        engine.node("llm")(function if kind == "function" else coroutine)
        for _ in range(3):
            with pytest.raises(RunFailed, match=r"name \\udc80"):
                engine.run(chain(llm()), {"q": "x"}).result(SECONDS_MAX)


def test_a_broken_log_of_the_program_leaves_a_node_its_failure(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the disk is full")

    broken = Broken()
    logging.getLogger("tidemill").addHandler(broken)
    try:
        with Engine(threads=1) as engine:

            @engine.node("llm")
            def function(ctx: NodeContext) -> None:
                raise ValueError("mine")

            for _ in range(2):
                with pytest.raises(RunFailed, match="mine"):
                    engine.run(chain(llm()), {"q": "x"}).result(SECONDS_MAX)
    finally:
        logging.getLogger("tidemill").removeHandler(broken)
    assert "the disk is full" in capsys.readouterr().err


def test_a_mistake_on_the_thread_of_the_mailbox_does_not_end_it() -> None:
    async def later() -> dict[str, Any]:
        return await engine.run(chain(llm()), {"q": "x"}).wait()

    def wrong() -> None:
        raise LookupError("a mistake")

    with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            return {"text": "x"}

        assert asyncio.run(later()) == {"text": "x"}
        _process.later(0.0, wrong)
        for _ in range(3):
            assert asyncio.run(later()) == {"text": "x"}
    assert _process._mailbox is not None
    assert _process._mailbox.is_alive()


@pytest.mark.parametrize("how", ["result", "events"])
def test_functions_may_wait_for_runs_of_their_own_engine(how: str) -> None:
    """With as many functions as there are threads, all of which wait for a run that needs a thread, three deep."""
    all_wait = threading.Barrier(4)
    with Engine(threads=4) as engine:

        def begin(id: str) -> Run:
            return engine.run(chain(llm(id)), {"q": "x"})

        def wait_for(run: Run) -> dict[str, Any]:
            if how == "result":
                return run.result(SECONDS_MAX)
            outputs: dict[str, Any] = list(run)[-1].data["outputs"]
            return outputs

        @engine.node(id="outer")
        def outer(ctx: NodeContext) -> dict[str, Any]:
            all_wait.wait(SECONDS_MAX)
            return wait_for(begin("middle"))

        @engine.node(id="middle")
        def middle(ctx: NodeContext) -> dict[str, Any]:
            return wait_for(begin("inner"))

        @engine.node(id="inner")
        def inner(ctx: NodeContext) -> dict[str, Any]:
            return {"text": "done"}

        runs = [begin("outer") for _ in range(4)]
        assert [run.result(SECONDS_MAX) for run in runs] == [{"text": "done"}] * 4
        # Those that took the place of the waiting ones end.
        for _ in range(12):
            begin("inner").result(SECONDS_MAX)
        until(lambda: len(engine._executors.threads._threads) <= 12, "fewer threads")


def test_no_more_functions_run_at_once_than_there_are_threads() -> None:
    at_once, most = 0, 0
    lock = threading.Lock()
    with Engine(threads=2) as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> dict[str, Any]:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            threading.Event().wait(0.01)
            with lock:
                at_once -= 1
            return {"text": "x"}

        runs = [engine.run(chain(llm()), {"q": "x"}) for _ in range(20)]
        for run in runs:
            run.result(SECONDS_MAX)
    assert most == 2


def test_a_thread_that_the_system_refuses_loses_no_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == "tidemill-node-2":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with caplog.at_level(logging.WARNING, "tidemill"), Engine() as engine:
        engine.node("llm")(lambda ctx: {"text": "x"})
        for _ in range(3):
            assert engine.run(chain(llm()), {"q": "x"}).result(SECONDS_MAX) == {"text": "x"}
    assert "can't start new thread" in caplog.text


def test_a_run_keeps_its_engine() -> None:
    def begin() -> Run:
        engine = Engine()
        engine.node("llm")(lambda ctx: {"text": "x"})
        return engine.run(chain(llm()), {"q": "x"})

    run = begin()
    gc.collect()
    assert run.result(SECONDS_MAX) == {"text": "x"}
    assert [event.type for event in Engine().run(chain(template("t")), {"q": "x"})][-1] == "graph_run_succeeded"


def test_a_loop_that_has_stopped_is_not_waited_for() -> None:
    loops: list[Any] = []
    with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            loops.append(asyncio.get_running_loop())
            return {"text": "x"}

        async def begin() -> Run:
            return engine.run(chain(llm()), {"q": "x"})

        async def wait_for(run: Run) -> dict[str, Any]:
            return await run.wait()

        loop = asyncio.new_event_loop()
        try:
            assert loop.run_until_complete(wait_for(loop.run_until_complete(begin()))) == {"text": "x"}
            # The loop stands now, and is not closed. A run that was started on none uses the engine's.
            assert engine.run(chain(llm()), {"q": "x"}).result(SECONDS_MAX) == {"text": "x"}
            run = loop.run_until_complete(begin())
            with pytest.raises(RuntimeError, match="does not run now"):
                run.result()
            with pytest.raises(RuntimeError, match="does not run now"):
                list(run)
            assert loop.run_until_complete(wait_for(run)) == {"text": "x"}
        finally:
            loop.close()
    assert [one is loop for one in loops] == [True, False, True]


def test_a_call_waits_only_for_starts_that_began_before_it() -> None:
    """Otherwise a program that always starts some run would hold it back for ever."""

    class Call:
        def __init__(self, run_id: str) -> None:
            self.run_id = run_id

    passed: list[str] = []
    came = threading.Event()

    def start(_loop: Any, call: Any) -> None:
        passed.append(call.run_id)
        came.set()

    loops = Loops(start, "test-loop")
    first, second = loops.starting(), loops.starting()
    started = first.__enter__()
    loops.put(Call("foreign"))  # type: ignore[arg-type]
    second.__enter__()
    started("mine")
    assert passed == []
    first.__exit__(None, None, None)
    assert came.wait(SECONDS_MAX), "the second start began after the call"
    second.__exit__(None, None, None)
    for thread in loops.close():
        thread.join(SECONDS_MAX)
    loops.put(Call("late"))  # type: ignore[arg-type]
    assert passed == ["foreign"]
    assert loops.close() is not None


def test_ctrl_c_in_a_coroutine_reaches_the_program() -> None:
    with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            raise KeyboardInterrupt

        async def main() -> None:
            await engine.run(chain(llm()), {"q": "x"}).wait()

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        # On the engine's own loop it is a mistake of the function alone.
        for _ in range(2):
            with pytest.raises(RunFailed, match="KeyboardInterrupt"):
                engine.run(chain(llm()), {"q": "x"}).result(SECONDS_MAX)


def test_an_async_generator_that_goes_on_after_its_cancellation_is_closed() -> None:
    begun, closed = threading.Event(), threading.Event()
    with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> AsyncIterator[str]:
            try:
                while True:
                    begun.set()
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(0.005)
                    yield "x"
            finally:
                closed.set()

        run = engine.run(chain(llm()), {"q": "x"})
        assert begun.wait(SECONDS_MAX)
        run.stop()
        assert closed.wait(SECONDS_MAX)


def test_commands_from_many_threads_and_the_end_of_the_engine_meet() -> None:
    """Each call returns or raises; none waits for ever."""
    engine = Engine()
    gate = threading.Event()

    @engine.node("llm")
    def model(ctx: NodeContext) -> Iterator[str]:
        gate.set()
        while not ctx.cancelled:
            yield "x" * 100

    runs = [engine.run(chain(llm()), {"q": "x"}) for _ in range(8)]
    assert gate.wait(SECONDS_MAX)

    def work(number: int) -> None:
        run = runs[number % len(runs)]
        uses = [run.show, run.pause, run.snapshot, lambda: list(run), lambda: run.result(5), run.stop]
        with contextlib.suppress(TidemillError, RuntimeError, TimeoutError):
            uses[number % len(uses)]()
        engine.close()

    in_threads(24, work)


def test_a_pool_without_its_first_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = Threads(lambda call: None, 1, "test")
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        pool.start()
