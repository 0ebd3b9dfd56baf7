"""The embedded engine: runs, events, results, commands, pauses, snapshots."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from flows import answer, ask, chain, chat, kinds, llm, of, template
from places import in_threads

from tidemill import Engine, NodeContext, Refused, RunFailed, RunPaused, RunStopped

from fleet import until

GREET = chain(template("greet", "Good morning, {{ q }}"), outputs={"text": "greet.output"})
COUNT = chain(ask(), outputs={"given": "ask.content"})


def test_a_run_gives_its_events_and_its_outputs() -> None:
    with Engine() as engine:
        run = engine.run(GREET, {"q": "Ada"})
        events = list(run)
        assert kinds(events)[0] == "graph_run_started"
        assert events[-1].is_last
        assert run.result() == {"text": "Good morning, Ada"}
        assert kinds(run) == kinds(events), "each iteration begins with the first event"
        assert run.show()["status"] == "succeeded"
        assert engine.find(run.id).result() == {"text": "Good morning, Ada"}


def test_an_event_has_its_time_and_is_a_document_in_two_forms() -> None:
    with Engine() as engine:
        before = time.time()
        events = list(engine.run(GREET, {"q": "Ada"}))
    ended = next(event for event in events if event.type == "node_run_succeeded" and event.node_id == "greet")
    assert before - 1 <= ended.time <= time.time() + 1
    document = ended.json()
    assert document["type"] == "node_run_succeeded"
    assert document["data"]["node_run_result"]["outputs"] == {"output": "Good morning, Ada"}
    assert document["data"]["start_at"].endswith("Z")
    assert before - 1 <= ended.json(times="unix")["data"]["start_at"] <= time.time() + 1
    with pytest.raises(ValueError, match="iso"):
        ended.json(times="other")  # type: ignore[arg-type]


def test_a_workflow_is_a_path_a_text_or_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "greet.json"
    path.write_text(json.dumps(GREET))
    with Engine() as engine:
        for form in (path, str(path), json.dumps(GREET), GREET):
            assert engine.run(form, {"q": "Ada"}).result() == {"text": "Good morning, Ada"}
        with pytest.raises(FileNotFoundError, match="no such workflow file"):
            engine.run("missing.yml")
        with pytest.raises(TypeError, match="not int"):
            engine.run(7)  # type: ignore[arg-type]


def test_a_mistake_in_a_file_is_refused_with_its_code_and_its_place() -> None:
    with Engine() as engine:
        with pytest.raises(Refused) as refused:
            engine.run("kind: app\n")
        assert refused.value.code == "invalid_workflow"
        assert refused.value.diagnostics
        assert refused.value.diagnostics[0]["message"] in str(refused.value)
        with pytest.raises(Refused, match="no run"):
            engine.find("1-00000000000000000000000000")


def test_what_json_cannot_hold_is_refused_with_its_place() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with Engine() as engine:
        for wrong, error, said in [
            ({"a": [{"b": object()}]}, TypeError, r"run\.inputs\.a\.0\.b: object is no JSON value"),
            ({"a": float("nan")}, ValueError, "NaN"),
            ({"a": 1 << 70}, ValueError, "64 bits"),
            ({"a": {1: 2}}, TypeError, "keys are str, not int"),
            ({"a": loop}, ValueError, "nested deeper than 128"),
            ({"a": "\ud800"}, ValueError, "surrogates not allowed"),
        ]:
            with pytest.raises(error, match=said):
                engine.run(GREET, wrong)


def test_a_run_that_fails_raises_its_error() -> None:
    with Engine() as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> dict[str, Any]:
            raise LookupError("no such model")

        run = engine.run(chain(llm()), {"q": "Ada"})
        with pytest.raises(RunFailed, match="no such model") as failed:
            run.result()
        assert failed.value.run_id == run.id
        assert failed.value.status == "failed"


def test_a_result_that_takes_too_long_is_a_timeout_and_the_run_goes_on() -> None:
    goes_on = threading.Event()
    with Engine() as engine:

        @engine.node("llm")
        def model(ctx: NodeContext) -> dict[str, Any]:
            goes_on.wait(60)
            return {"text": "late"}

        run = engine.run(chain(llm()), {"q": "Ada"})
        with pytest.raises(TimeoutError, match="it goes on"):
            run.result(timeout=0.05)
        goes_on.set()
        assert run.result(timeout=60) == {"text": "late"}


def test_a_command_from_another_thread_stops_a_run() -> None:
    with Engine() as engine:
        run = engine.run(COUNT)
        for event in run:
            if event.type == "graph_run_paused":
                in_threads(1, lambda _: run.stop("enough"))
        with pytest.raises(RunStopped, match="enough"):
            run.result()
        with pytest.raises(Refused) as refused:
            run.stop("again")
        assert refused.value.code == "run_over"


def test_a_run_waits_for_an_answer_and_takes_one_that_fits() -> None:
    with Engine() as engine:
        run = engine.run(COUNT)
        with pytest.raises(RunPaused) as paused:
            run.result()
        (pause,) = paused.value.pauses
        assert pause["node_id"] == "ask"
        assert [one["pause_id"] for one in run.pauses()] == [pause["pause_id"]]
        with pytest.raises(Refused):
            run.answer(pause["pause_id"], {"input": "many"})
        run.answer(pause["pause_id"], {"input": 17})
        assert run.result() == {"given": "17"}


def test_a_run_that_a_command_paused_takes_new_values_and_resumes() -> None:
    with Engine() as engine:
        goes_on = threading.Event()

        @engine.node("llm")
        def model(ctx: NodeContext) -> dict[str, Any]:
            assert goes_on.wait(60)
            return {"text": "first"}

        flow = chain(llm(), template("second", "{{ q }}"), outputs={"text": "llm.text", "q": "second.output"})
        run = engine.run(flow, {"q": "Ada"})
        for event in run:
            if event.type == "node_run_started" and event.node_id == "llm":
                run.pause("look at it")
                break
        # The node that runs may end; the next one waits.
        goes_on.set()
        with pytest.raises(RunPaused) as paused:
            run.result()
        assert paused.value.pauses == []
        run.update({"llm.text": "changed", "start.q": "Grace"})
        run.resume()
        assert run.result() == {"text": "changed", "q": "Grace"}


def test_a_run_goes_on_from_its_snapshot_in_another_engine() -> None:
    with Engine() as first:
        run = first.run(COUNT)
        with pytest.raises(RunPaused):
            run.result()
        snapshot = run.snapshot()
    assert isinstance(snapshot, bytes)
    with Engine() as second:
        run = second.resume(snapshot)
        with pytest.raises(RunPaused) as paused:
            run.result()
        run.answer(paused.value.pauses[0]["pause_id"], {"input": 3})
        assert run.result() == {"given": "3"}
        with pytest.raises(Refused):
            second.resume(b"{}")


def test_a_conversation_goes_from_run_to_run() -> None:
    with Engine() as engine:
        flow = chat(answer("say", "{{#sys.query#}} {{#sys.dialogue_count#}}"))
        first = engine.run(flow, query="one", conversation_id="")
        assert first.result() == {"answer": "one 1", "files": []}
        assert first.conversation_id
        second = engine.run(flow, query="two", conversation_id=first.conversation_id)
        assert second.result() == {"answer": "two 2", "files": []}


def test_settings_are_a_file_or_a_mapping_and_mistakes_are_named(tmp_path: Path) -> None:
    loop = chain(template("greet"), outputs={"text": "greet.output"})
    for settings in ({"run": {"max_steps": 1}}, tmp_path / "t.toml"):
        (tmp_path / "t.toml").write_text("[run]\nmax_steps = 1\n")
        with Engine(settings) as engine, pytest.raises(RunStopped):
            engine.run(loop, {"q": "Ada"}).result()
    for wrong, said in [
        ({"run": {"max_stepz": 1}}, "max_steps"),
        ({"worker": {"permits": 0}}, "at least 1"),
        (tmp_path / "missing.toml", "missing.toml"),
    ]:
        with pytest.raises(ValueError, match=said):
            Engine(wrong).start()


def test_a_closed_engine_says_so() -> None:
    engine = Engine()
    run = engine.run(GREET, {"q": "Ada"})
    run.result()
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match="this engine is closed"):
        engine.run(GREET)


def test_the_end_of_an_engine_ends_those_who_wait_for_its_runs() -> None:
    engine = Engine()
    run = engine.run(COUNT)
    until(lambda: run.show()["status"] == "paused", "the pause")
    ended = threading.Event()

    def read() -> None:
        for _ in run:
            pass
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    engine.close()
    assert ended.wait(60)


async def test_events_and_results_come_to_an_event_loop() -> None:
    async with Engine() as engine:
        run = engine.run(GREET, {"q": "Ada"})
        events = [event async for event in run]
        assert events[-1].type == "graph_run_succeeded"
        assert await run.wait() == {"text": "Good morning, Ada"}
        run = engine.run(COUNT)
        with pytest.raises(RunPaused) as paused:
            await run.wait()
        run.answer(paused.value.pauses[0]["pause_id"], {"input": 1})
        assert await run.wait() == {"given": "1"}


async def test_waiting_for_a_run_leaves_the_event_loop_free() -> None:
    async with Engine() as engine:
        run = engine.run(COUNT)
        waiting = asyncio.create_task(run.wait())
        reading = asyncio.create_task(_all(run))
        with pytest.raises(RunPaused):
            await asyncio.wait_for(waiting, 60)
        ticks = 0
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        assert not reading.done()
        run.stop()
        assert kinds(await asyncio.wait_for(reading, 60))[-1] == "graph_run_aborted"


async def test_giving_up_an_iteration_frees_it() -> None:
    async with Engine() as engine:
        run = engine.run(COUNT)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_all(run), 0.2)
        run.stop()
        assert kinds(await _all(run))[-1] == "graph_run_aborted"


async def _all(run: Any) -> list[Any]:
    return [event async for event in run]


def test_a_bare_branch_takes_the_handle_that_a_function_chooses() -> None:
    with Engine() as engine:
        from tidemill import NodeResult

        @engine.node(id="choose")
        def choose(ctx: NodeContext) -> NodeResult:
            return NodeResult(handle="b")

        classes = [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]
        choice = llm("choose", classes=classes, query_variable_selector=["start", "q"])
        choice["data"]["type"] = "question-classifier"
        flow = chain(choice, outputs={})
        nodes = flow["workflow"]["graph"]["nodes"]
        start, choice = nodes[0], nodes[1]
        a, b = template("na", "A"), template("nb", "B")
        end = {
            "id": "end",
            "data": {
                "type": "end",
                "title": "End",
                "outputs": [
                    {"variable": "a", "value_selector": ["na", "output"]},
                    {"variable": "b", "value_selector": ["nb", "output"]},
                ],
            },
        }
        edges: list[Any] = [
            ("start", "choose"),
            ("choose", "na", "a"),
            ("choose", "nb", "b"),
            ("na", "end"),
            ("nb", "end"),
        ]
        outputs = engine.run(of([start, choice, a, b, end], edges), {"q": "x"}).result()
        assert outputs["b"] == "B"
        assert outputs.get("a") is None
