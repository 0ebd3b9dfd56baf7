"""Call classes that an embedded engine serves behave as registered Calls in `call` nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from calls.greet import Careless, Greet, workflow
from tidemill import Engine, RunFailed
from tidemill.calls import CallStandardError, CoreCall

SECONDS_MAX = 30


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with_calls = Engine({})
    with_calls.calls(Greet, Careless)
    with with_calls as started:
        yield started


def outputs(engine: Engine, call: str, **params: Any) -> dict[str, Any]:
    return engine.run(workflow(call, **params)).result(timeout=SECONDS_MAX)


def test_its_texts_are_joined(engine: Engine) -> None:
    assert outputs(engine, "Greet", who="Ada")["text"] == "Hello, Ada"


def test_its_texts_are_shown_while_they_come(engine: Engine) -> None:
    run = engine.run(workflow("Greet", who="Ada"))
    pieces = [event.data["chunk"] for event in run if event.type == "node_run_stream_chunk"]
    assert "".join(pieces).startswith("Hello, Ada")


def test_an_object_replaces_the_texts_before_it(engine: Engine) -> None:
    found = outputs(engine, "Greet", who="Ada", form="object")
    assert (found["greeted"], found["text"]) == ("Ada", None)


def test_a_text_replaces_the_object_before_it(engine: Engine) -> None:
    found = outputs(engine, "Greet", who="Ada", form="text after object")
    assert (found["greeted"], found["text"]) == (None, "Bye")


def test_a_call_error_fails_the_node_with_its_class_and_text(engine: Engine) -> None:
    with pytest.raises(RunFailed, match="Ada is not at home"):
        outputs(engine, "Greet", who="Ada", form="error")


def test_what_is_no_piece_fails_the_node(engine: Engine) -> None:
    with pytest.raises(RunFailed, match="must yield CallOutputChunk, not str"):
        outputs(engine, "careless")


def test_a_wrong_parameter_is_named_without_its_value(engine: Engine) -> None:
    with pytest.raises(RunFailed, match="wrong parameters: who") as failed:
        outputs(engine, "Greet", who=["a secret"])
    assert "a secret" not in str(failed.value)


def test_a_wrong_class_leaves_the_others_unregistered() -> None:
    class Wrong(CoreCall): ...

    fresh = Engine({})
    with pytest.raises(CallStandardError):
        fresh.calls(Greet, Wrong)
    fresh.calls(Greet)
    fresh.close()
