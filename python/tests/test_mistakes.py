"""Mistakes that are made when one begins: each error names the thing, and says what to write instead."""

from __future__ import annotations

import dataclasses
import functools
import numbers
from pathlib import Path
from typing import Any

import pytest
from flows import chain, llm, tool

from tidemill import Engine, NodeContext, NodeResult, Refused, RunFailed, RunStopped, TidemillError, Worker


def error_of(function: Any, workflow: Any = None) -> RunFailed:
    """The failure of a run whose tool is this function."""
    with Engine() as engine:
        engine.node("tool", provider="acme")(function)
        with pytest.raises(RunFailed) as failed:
            engine.run(workflow or chain(tool()), {"q": "hello"}).result(timeout=60)
    return failed.value


def test_a_failed_run_names_its_node_and_an_exception_without_a_sentence() -> None:
    def fails(ctx: NodeContext) -> None:
        {}["absent"]  # pyright: ignore[reportUnusedExpression]

    failed = error_of(fails)
    assert failed.node_id == "tool"
    assert failed.error == "KeyError: 'absent'"
    assert str(failed) == "the run has failed at node tool: KeyError: 'absent'"


def test_an_input_that_the_node_does_not_read_is_answered_with_those_it_reads() -> None:
    failed = error_of(lambda ctx: {"text": ctx.inputs["q"]})
    assert failed.error == "the node reads no 'q'; it reads start.q, text"


@pytest.mark.parametrize("decorate", ["node", "queue"])
@pytest.mark.parametrize("host", [Engine, functools.partial(Worker, redis="redis://127.0.0.1:1")])
def test_a_decorator_without_its_name_is_refused(host: Any, decorate: str) -> None:
    with pytest.raises(TypeError, match=rf'write @….{decorate}\("…"\)'):
        getattr(host(), decorate)(lambda ctx: None)


@pytest.mark.parametrize("names", [{"type": ""}, {"id": ""}, {"provider": ""}])
def test_an_empty_name_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="the text is empty"):
        Engine().node(**names)


@pytest.mark.parametrize(
    "function", [lambda: None, lambda ctx, more: None, eval("lambda *, ctx: None")], ids=["none", "two", "named"]
)
def test_a_function_that_cannot_take_its_argument_is_refused_when_it_is_registered(function: Any) -> None:
    with pytest.raises(TypeError, match="must take one argument, a NodeContext"):
        Engine().node("llm")(function)


def test_a_late_registration_says_that_another_engine_is_needed() -> None:
    with Engine() as engine:
        engine.start()
        with pytest.raises(RuntimeError, match="before its first run, or make another engine"):
            engine.node("llm")(lambda ctx: None)


@dataclasses.dataclass
class Answer:
    text: str


class Model:
    """A model of pydantic, as far as it is seen here."""

    def model_dump(self) -> None: ...


async def later(ctx: NodeContext) -> dict[str, Any]:
    return {"text": "later"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("result", "said"),
    [
        (lambda: "text", 'name the output: {"text": …}'),
        (lambda: Answer("text"), "dataclasses.asdict"),
        (Model, 'model_dump(mode="json")'),
        (lambda: later(None), "declare the function with `async def`"),  # type: ignore[arg-type]
        (lambda: NodeResult({}, tokens=5), "tokens: two whole numbers are needed, (prompt, completion), not 5"),  # type: ignore[arg-type]
        (lambda: NodeResult({}, tokens=(1, -1)), "tokens: two whole numbers are needed"),
    ],
)
def test_a_result_of_another_kind_says_what_to_return(result: Any, said: str) -> None:
    assert said in error_of(lambda ctx: result()).error


def test_a_piece_that_is_no_text_is_refused() -> None:
    assert "emit: the text and the output are str, not int" in error_of(lambda ctx: ctx.emit(5)).error


def test_a_folder_and_an_empty_text_are_no_workflows(tmp_path: Path) -> None:
    with Engine() as engine:
        with pytest.raises(IsADirectoryError, match="a workflow file is needed, not a directory"):
            engine.run(tmp_path)
        with pytest.raises(ValueError, match="the workflow is an empty text"):
            engine.run(" ")


def test_values_of_another_kind_are_refused_by_commands() -> None:
    with Engine() as engine:
        engine.node("llm")(lambda ctx: {"text": ""})
        run = engine.run(chain(llm()), {"q": "hello"})
        with pytest.raises(TypeError, match="an answer: a mapping is needed, not int"):
            run.answer("id", 3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="values: a mapping is needed, not list"):
            run.update([])  # type: ignore[arg-type]
        for wrong in ("text", 3):
            with pytest.raises(TypeError, match="a snapshot is bytes"):
                engine.resume(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="run_id: a str is needed, not int"):
            engine.find(3)  # type: ignore[arg-type]
        for wrong, said in ((b"abc", "the snapshot cannot be read: it is not JSON"), (b'{"run": ', "it is cut")):
            with pytest.raises(Refused, match=said):
                engine.resume(wrong)


def test_a_text_is_no_list_of_queues() -> None:
    with pytest.raises(TypeError, match=r"queues: a list of names is needed, such as \['gpu'\], not a str"):
        Worker(redis="redis://127.0.0.1:1", queues="gpu")


def test_a_worker_needs_a_permit() -> None:
    with pytest.raises(ValueError, match="permits must be at least 1, not 0"):
        Worker(permits=0)
    with pytest.raises(ValueError, match="permits must be at most 4294967295"):
        Worker(permits=2**70)
    with pytest.raises(TypeError, match="permits: a whole number is needed, not str"):
        Worker(permits="4")  # type: ignore[arg-type]


def test_arguments_of_a_worker_are_checked_by_their_names() -> None:
    with pytest.raises(TypeError, match="redis: a str is needed"):
        Worker(redis=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="queues: a name is a str, not int"):
        Worker(queues=[1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"setting worker\.queues in the arguments of Worker: at least one queue"):
        Worker(redis="redis://127.0.0.1:1", queues=[]).start()


def test_settings_of_the_wrong_kind_are_named_in_words_of_their_file() -> None:
    with pytest.raises(ValueError, match=r"setting worker in settings: invalid type: string, expected a table"):
        Engine({"worker": "info"}).start()  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r'call tidemill\.log\("off"\)'):
        Engine({"log": {"level": "off"}}).start()
    with pytest.raises(TidemillError, match="there is no tidemill program /nowhere/tidemill: name another one"):
        Engine(tidemill="/nowhere/tidemill").start()


def test_whole_numbers_of_other_libraries_are_taken_and_their_truth_values_are_not() -> None:
    int64 = type("int64", (), {"__module__": "numpy", "__index__": lambda self: 7})
    numbers.Integral.register(int64)
    truth = type("bool", (), {"__module__": "numpy", "__index__": lambda self: 1})
    with Engine() as engine:
        engine.node("tool", provider="acme")(lambda ctx: {"number": int64()})
        run = engine.run(chain(tool(), outputs={"number": "tool.number"}), {"q": "hello"})
        assert run.result(timeout=60) == {"number": 7}
    failed = error_of(lambda ctx: {"truth": truth()})
    assert (
        failed.error
        == "outputs.truth: numpy.bool is no JSON value; use None, bool, int, float, str, list, tuple or dict"
    )


def test_a_stopped_run_says_its_reason_once() -> None:
    assert str(RunStopped("id", "Aborted: enough")) == "the run was stopped: enough"
