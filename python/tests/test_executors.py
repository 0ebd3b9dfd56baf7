"""Node executors in Python: the four kinds of functions, their results, failures, pauses, cancellation and hangs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from flows import answer, chain, chat, kinds, llm, of, template, tool
from places import in_threads

from tidemill import Chunk, Engine, NodeContext, NodeResult, Pause, RunFailed, RunPaused, RunStopped, _executors

from fleet import until


def test_a_plain_function_is_given_what_the_node_reads() -> None:
    seen: list[NodeContext] = []
    with Engine() as engine:

        @engine.node("tool", provider="acme")
        def say(ctx: NodeContext) -> dict[str, Any]:
            seen.append(ctx)
            return {"text": ctx.inputs["text"].upper()}

        run = engine.run(chain(tool()), {"q": "hello"})
        assert run.result() == {"text": "HELLO"}
    (ctx,) = seen
    assert (ctx.node_id, ctx.node_type, ctx.title, ctx.run_id) == ("tool", "tool", "Tool", run.id)
    assert (ctx.attempt, ctx.app, ctx.answer, ctx.answers, ctx.cancelled) == (1, None, None, [], False)
    assert ctx.config["tool_name"] == "say"
    assert ctx.render("<{{#start.q#}}>") == "<hello>"
    assert ctx.get("start.q") == ctx.get(["start", "q"]) == "hello"
    assert ctx.get("start.other") is None


def test_each_kind_of_function_streams_before_it_ends() -> None:
    goes_on = {kind: threading.Event() for kind in ("generator", "emits", "async_generator", "coroutine")}

    def wait(kind: str) -> None:
        assert goes_on[kind].wait(60)

    def generator(ctx: NodeContext) -> Iterator[Any]:
        yield "one "
        wait("generator")
        yield Chunk("two")

    def emits(ctx: NodeContext) -> NodeResult:
        ctx.emit("one ")
        wait("emits")
        ctx.emit("two", "text", final=True)
        return NodeResult(outputs={"text": "one two"}, tokens=(1, 2))

    async def async_generator(ctx: NodeContext) -> AsyncIterator[Any]:
        yield "one "
        await asyncio.to_thread(wait, "async_generator")
        yield "two"
        yield {"more": 1}

    async def coroutine(ctx: NodeContext) -> None:
        ctx.emit("one ")
        await asyncio.to_thread(wait, "coroutine")
        ctx.emit("two")

    for function in (generator, emits, async_generator, coroutine):
        with Engine({"worker": {"chunk_gather_ms": 0}}) as engine:
            engine.node("llm")(function)
            run = engine.run(chat(llm(prompt="x"), answer("say", "{{#llm.text#}}")), query="q")
            pieces = []
            for event in run:
                if event.type == "node_run_stream_chunk":
                    pieces.append(event.data["chunk"])
                    # The function waits for this: its first piece comes while it runs.
                    goes_on[function.__name__].set()
            assert [piece for piece in pieces if piece] == ["one ", "two"], function.__name__
            assert run.result()["answer"] == "one two"


def test_what_a_function_may_return_becomes_the_result_of_its_node() -> None:
    with Engine() as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> NodeResult:
            return NodeResult(
                outputs={"text": "t", "big": 1 << 63, "nested": {"list": (1, 2.5, None, True)}},
                process_data={"how": "so"},
                metadata={"total_price": "0.1", "currency": "USD"},
                tokens=(7, 5),
            )

        run = engine.run(chain(llm(), outputs={"n": "llm.nested", "big": "llm.big"}), {"q": "x"})
        assert run.result() == {"n": {"list": [1, 2.5, None, True]}, "big": 1 << 63}
        ended = next(e for e in run if e.type == "node_run_succeeded" and e.node_id == "llm")
        result = ended.data["node_run_result"]
        assert result["process_data"]["how"] == "so"
        assert run.show()["total_tokens"] == 12


@pytest.mark.parametrize("kind", ["function", "generator", "coroutine", "async_generator"])
def test_an_exception_is_retried_and_then_takes_the_error_branch(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[int] = []

    class ModelIsAway(Exception):
        pass

    def function(ctx: NodeContext) -> dict[str, Any]:
        attempts.append(ctx.attempt)
        raise ModelIsAway("gone fishing")

    def generator(ctx: NodeContext) -> Iterator[str]:
        function(ctx)
        yield ""

    async def coroutine(ctx: NodeContext) -> dict[str, Any]:
        return function(ctx)

    async def async_generator(ctx: NodeContext) -> AsyncIterator[str]:
        function(ctx)
        yield ""

    functions: dict[str, Any] = {f.__name__: f for f in (function, generator, coroutine, async_generator)}
    model = llm(
        error_strategy="fail-branch", retry_config={"retry_enabled": True, "max_retries": 2, "retry_interval": 1}
    )
    end = {
        "id": "end",
        "data": {
            "type": "end",
            "title": "End",
            "outputs": [
                {"variable": "error", "value_selector": ["llm", "error_message"]},
                {"variable": "class", "value_selector": ["llm", "error_type"]},
            ],
        },
    }
    start = chain(llm())["workflow"]["graph"]["nodes"][0]
    good = template("good")
    flow = of([start, model, good, end], [("start", "llm"), ("llm", "good", "source"), ("llm", "end", "fail-branch")])
    with caplog.at_level(logging.WARNING, "tidemill"), Engine() as engine:
        engine.node("llm")(functions[kind])
        run = engine.run(flow, {"q": "x"})
        assert run.result() == {"error": "gone fishing", "class": "ModelIsAway"}
        assert attempts == [1, 2, 3]
        assert kinds(run).count("node_run_retry") == 2
        # The traceback is in the log of Python, and in no event.
        assert any(record.exc_info for record in caplog.records)
        assert all("Traceback" not in str(event.data) for event in run)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (7, r"must return dict, NodeResult, Pause or None, not int"),
        ({"a": {"b": object()}}, r"outputs\.a\.b: object is no JSON value"),
        (NodeResult(metadata={"a": {1}}), r"metadata\.a: set is no JSON value"),
    ],
)
def test_a_result_that_does_not_fit_fails_the_node_with_its_place(result: Any, said: str) -> None:
    with Engine() as engine:
        engine.node("llm")(lambda ctx: result)
        with pytest.raises(RunFailed, match=said):
            engine.run(chain(llm()), {"q": "x"}).result()


def test_even_the_end_of_the_interpreter_is_only_a_failure_of_the_node() -> None:
    with Engine() as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> None:
            raise SystemExit(3)

        with pytest.raises(RunFailed, match="3"):
            engine.run(chain(llm()), {"q": "x"}).result()


def test_a_function_asks_a_person_and_is_called_again_with_the_answer() -> None:
    with Engine() as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> Any:
            if len(ctx.answers) < 2:
                return Pause(f"number {len(ctx.answers) + 1}?", {"type": "integer"})
            return {"text": f"{ctx.answers} {ctx.answer}"}

        run = engine.run(chain(llm()), {"q": "x"})
        for number in (4, 5):
            with pytest.raises(RunPaused) as paused:
                run.result()
            run.answer(paused.value.pauses[0]["pause_id"], {"input": number})
        assert run.result() == {"text": "[4, 5] 5"}


def test_the_most_exact_registration_wins() -> None:
    with Engine() as engine:
        engine.node("tool")(lambda ctx: {"text": "type"})
        engine.queue("gpu")(lambda ctx: {"text": "queue"})
        engine.node(provider="acme")(lambda ctx: {"text": "provider"})
        engine.node(id="one")(lambda ctx: {"text": "id"})
        nodes = [
            tool("one"),
            tool("two"),
            tool("three", provider="other"),
            template("four", tidemill={"queue": "gpu"}),
        ]
        outputs = {node["id"]: f"{node['id']}.text" for node in nodes}
        run = engine.run(chain(*nodes, outputs=outputs), {"q": "x"})
        assert run.result() == {"one": "id", "two": "provider", "three": "type", "four": "queue"}


def test_mistakes_in_registrations_are_named() -> None:
    with Engine() as engine:
        for wrong, said in [
            (lambda: engine.node("no-such-type"), "no node type"),
            (lambda: engine.node("loop"), "executed by the engine itself"),
            (lambda: engine.node(), "name the type"),
            (lambda: engine.node("llm", id="x"), "name the type"),
            (lambda: engine.node("llm", provider="x"), "provider belongs to"),
        ]:
            with pytest.raises(ValueError, match=said):
                wrong()
    engine = Engine()
    engine.node("llm")(lambda ctx: None)
    with pytest.raises(ValueError, match="has a function already"):
        engine.node("llm")(lambda ctx: None)
    with pytest.raises(TypeError, match="a function is needed"):
        engine.node("tool")(7)  # type: ignore[type-var]
    engine.start()
    with pytest.raises(RuntimeError, match="before its first run"):
        engine.node("tool")(lambda ctx: None)
    engine.close()


def test_a_stopped_run_cancels_its_functions() -> None:
    begun = {kind: threading.Event() for kind in ("function", "generator", "coroutine", "async_generator")}
    ended = {kind: threading.Event() for kind in begun}

    def function(ctx: NodeContext) -> None:
        begun["function"].set()
        until(lambda: ctx.cancelled, "the cancellation")
        ended["function"].set()

    def generator(ctx: NodeContext) -> Iterator[str]:
        try:
            begun["generator"].set()
            while True:
                time.sleep(0.005)
                yield "x"
        except GeneratorExit:
            ended["generator"].set()
            raise

    async def coroutine(ctx: NodeContext) -> None:
        try:
            begun["coroutine"].set()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended["coroutine"].set()
            raise

    async def async_generator(ctx: NodeContext) -> AsyncIterator[str]:
        try:
            begun["async_generator"].set()
            while True:
                await asyncio.sleep(0.005)
                yield "x"
        finally:
            ended["async_generator"].set()

    for made in (function, generator, coroutine, async_generator):
        with Engine() as engine:
            engine.node("llm")(made)
            run = engine.run(chain(llm()), {"q": "x"})
            assert begun[made.__name__].wait(60)
            run.stop()
            with pytest.raises(RunStopped):
                run.result()
            assert ended[made.__name__].wait(60), made.__name__


def test_a_function_that_hangs_fails_its_node_and_its_thread_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_executors, "GIVE_UP_SECONDS", 0.2)
    goes_on = threading.Event()
    with caplog.at_level(logging.WARNING, "tidemill"), Engine(threads=1) as engine:

        @engine.node(id="hangs")
        def hangs(ctx: NodeContext) -> None:
            goes_on.wait(100)

        @engine.node("llm")
        def works(ctx: NodeContext) -> dict[str, Any]:
            return {"text": "works"}

        slow = chain(llm("hangs", tidemill={"execution_timeout_ms": 500}))
        with pytest.raises(RunFailed):
            engine.run(slow, {"q": "x"}).result(timeout=60)
        # The only thread hangs; another one takes its place.
        assert engine.run(chain(llm()), {"q": "x"}).result(timeout=60) == {"text": "works"}
        until(lambda: "still runs" in caplog.text, "the warning")
        assert "hangs" in caplog.text
        assert "its thread is given up" in caplog.text
        goes_on.set()


def test_a_function_that_hangs_blocks_neither_other_functions_nor_other_engines() -> None:
    goes_on = threading.Event()
    with Engine() as one, Engine() as other:

        @one.node(id="hangs")
        def hangs(ctx: NodeContext) -> dict[str, Any]:
            goes_on.wait(100)
            return {"text": "late"}

        @one.node("llm")
        def works(ctx: NodeContext) -> dict[str, Any]:
            return {"text": "works"}

        @other.node("llm")
        async def works_too(ctx: NodeContext) -> dict[str, Any]:
            return {"text": "works, too"}

        hanging = one.run(chain(llm("hangs")), {"q": "x"})
        for _ in range(5):
            assert one.run(chain(llm()), {"q": "x"}).result(timeout=60) == {"text": "works"}
            assert other.run(chain(llm()), {"q": "x"}).result(timeout=60) == {"text": "works, too"}
        goes_on.set()
        assert hanging.result(timeout=60) == {"text": "late"}


def test_a_thread_that_reads_slowly_slows_a_fast_function_and_loses_nothing() -> None:
    with Engine({"run": {"value_bytes_max": 64 << 20}}) as engine:

        @engine.node("llm")
        def floods(ctx: NodeContext) -> Iterator[str]:
            for _ in range(500):
                yield "x" * 10_000

        assert len(engine.run(chain(llm()), {"q": "x"}).result()["text"]) == 5_000_000


async def test_coroutines_run_on_the_loop_that_started_the_run() -> None:
    loops = []
    async with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            loops.append(asyncio.get_running_loop())
            await asyncio.sleep(0)
            return {"text": "x"}

        run = engine.run(chain(llm(), llm("more")), {"q": "x"})
        with pytest.raises(RuntimeError, match=r"await run\.wait\(\)"):
            run.result()
        with pytest.raises(RuntimeError, match="async for"):
            list(run)
        await run.wait()
    assert loops == [asyncio.get_running_loop()] * 2


def test_coroutines_have_a_loop_of_their_own_without_a_running_one() -> None:
    threads = []
    with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            threads.append(threading.current_thread().name)
            return {"text": "x"}

        assert engine.run(chain(llm()), {"q": "x"}).result() == {"text": "x"}
        # A loop that has ended is not used any more.
        assert asyncio.run(_run_once(engine)) == {"text": "x"}
        assert engine.run(chain(llm()), {"q": "x"}).result() == {"text": "x"}
    assert threads == ["tidemill-loop", "MainThread", "tidemill-loop"]


async def _run_once(engine: Engine) -> dict[str, Any]:
    return await engine.run(chain(llm()), {"q": "x"}).wait()


def test_fifty_engines_at_once_in_threads_and_loops() -> None:
    def one(number: int) -> None:
        with Engine() as engine:
            if number % 2:
                engine.node("llm")(lambda ctx: {"text": ctx.inputs["start.q"] * 2})
                for _ in range(3):
                    assert engine.run(chain(llm()), {"q": str(number)}).result(60) == {"text": str(number) * 2}
            else:
                asyncio.run(of_loop(engine, number))

    async def of_loop(engine: Engine, number: int) -> None:
        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            await asyncio.sleep(0.01)
            return {"text": ctx.inputs["start.q"] * 2}

        runs = [engine.run(chain(llm()), {"q": str(number)}) for _ in range(3)]
        assert await asyncio.gather(*(run.wait() for run in runs)) == [{"text": str(number) * 2}] * 3

    in_threads(50, one, seconds=110)


async def test_many_coroutines_wait_at_once() -> None:
    waiting = 0
    most = 0
    async with Engine() as engine:

        @engine.node("llm")
        async def model(ctx: NodeContext) -> dict[str, Any]:
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            await asyncio.sleep(0.2)
            waiting -= 1
            return {"text": "x"}

        runs = [engine.run(chain(llm()), {"q": "x"}) for _ in range(100)]
        await asyncio.gather(*(run.wait() for run in runs))
    assert most > 30


def test_a_thread_goes_on_when_the_end_of_a_node_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError

    with Engine(threads=1) as engine:

        @engine.node("tool", provider="acme")
        def say(ctx: NodeContext) -> dict[str, Any]:
            return {"text": "said"}

        with monkeypatch.context() as patch:
            patch.setattr(_executors, "_end", broken)
            patch.setattr(_executors, "_fail", broken)
            with pytest.raises(RunFailed, match="without a result"):
                engine.run(chain(tool()), {"q": "x"}).result(timeout=30)
        assert engine.run(chain(tool()), {"q": "x"}).result(timeout=30) == {"text": "said"}
