"""A test of your own workflow with a fake model: pytest examples/python/test_letter.py

The workflow file is the one of production. Only the model is replaced, by a function that answers each
prompt as the test wants. No key, no server, no network.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemill import Engine, NodeContext, RunFailed

WORKFLOW = Path(__file__).parent / "letter.yml"

#: The answers of the fake model, by the title of the node that asks.
ANSWERS = {"Sort": "no", "Write": "Thank you for your letter.", "Summary": "A letter about the mill"}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """One engine for all tests: it starts in some milliseconds, but a run needs even less."""
    engine = Engine()

    @engine.node("llm")
    def answer(ctx: NodeContext) -> dict[str, str]:
        found = ANSWERS[ctx.title]
        if found == "FAIL":
            raise ConnectionError("the model is asleep")
        return {"text": found}

    with engine:
        yield engine


def test_a_letter_is_answered_by_the_model(engine: Engine) -> None:
    outputs = engine.run(WORKFLOW, {"letter": "How do you grind?"}).result(timeout=30)
    assert outputs == {"answer": "Thank you for your letter.", "summary": "A letter about the mill"}


def test_an_urgent_letter_gets_a_call_and_no_text_of_the_model(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "Sort", "yes, very")
    run = engine.run(WORKFLOW, {"letter": "The mill is on fire!"})
    titles = [event.data["node_title"] for event in run if event.type == "node_run_started"]
    assert "Write" not in titles
    assert run.result()["answer"] == "We call you today. You wrote: The mill is on fire!"


def test_a_model_that_fails_ends_the_run_with_its_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "Summary", "FAIL")
    with pytest.raises(RunFailed, match="the model is asleep"):
        engine.run(WORKFLOW, {"letter": "Hello"}).result(timeout=30)
