"""TC-INT-001 to 003 of the specification, each in the embedded engine and in a fleet with a worker in Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flows import chain, llm, node, template
from places import InEngine, InFleet, Place, Told

from tidemill import NodeContext

from fleet import Fleet, until


@pytest.fixture(params=[InEngine, InFleet])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each place. A fleet of its own, because a shared worker would take the nodes, too."""
    if request.param is InEngine:
        there: Place = InEngine()
        yield there
        there.close()
        return
    with Fleet() as fleet:
        there = InFleet(fleet)
        yield there
        there.close()


def test_tc_int_001_python_runs_a_graph_and_gets_well_formed_events(place: Place) -> None:
    place.start()
    # A bare graph, as the specification has it.
    graph = chain(template("greet", "Good morning, {{ q }}"), outputs={"text": "greet.output"})["workflow"]["graph"]
    run = place.submit(graph, {"q": "Ada"})
    events = list(place.events(run))

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[0].type == "graph_run_started"
    assert events[-1].type == "graph_run_succeeded"
    assert events[-1].data["outputs"] == {"text": "Good morning, Ada"}
    of_node = [event for event in events if event.data.get("node_id") == "greet"]
    assert [event.type for event in of_node] == ["node_run_started", "node_run_stream_chunk", "node_run_succeeded"]
    ended = of_node[-1].data
    assert (ended["node_type"], ended["node_title"]) == ("template-transform", "Greet")
    assert ended["node_run_result"]["status"] == "succeeded"
    assert ended["node_run_result"]["outputs"] == {"output": "Good morning, Ada"}
    assert {"id", "start_at", "finished_at"} <= ended.keys()
    assert place.show(run)["status"] == "succeeded"


def test_tc_int_002_a_model_node_is_executed_by_python_and_its_result_goes_on(place: Place) -> None:
    seen: list[NodeContext] = []

    @place.host.node("llm")
    def model(ctx: NodeContext) -> Iterator[Any]:
        seen.append(ctx)
        yield "Good "
        yield "morning"
        return {"usage": {"total_tokens": 3}}

    place.start()
    flow = chain(
        llm(prompt="Greet {{#start.q#}}"),
        node(
            "shout",
            "template-transform",
            template="{{ text | upper }}!",
            variables=[{"variable": "text", "value_selector": ["llm", "text"]}],
        ),
        outputs={"text": "shout.output", "tokens": "llm.usage.total_tokens"},
    )
    run = place.submit(flow, {"q": "Ada"})
    events = list(place.events(run))

    assert events[-1].type == "graph_run_succeeded"
    assert events[-1].data["outputs"] == {"text": "GOOD MORNING!", "tokens": 3}
    (context,) = seen
    assert context.run_id == run
    assert (context.node_id, context.node_type, context.title, context.attempt) == ("llm", "llm", "Llm", 1)
    assert context.config["model"]["name"] == "fake"
    assert context.inputs["start.q"] == "Ada"
    assert context.messages == [{"role": "user", "text": "Greet Ada", "files": []}]
    (ended,) = [event for event in events if event.type == "node_run_succeeded" and event.data["node_id"] == "llm"]
    assert ended.data["node_run_result"]["outputs"]["text"] == "Good morning"


def test_tc_int_003_a_command_of_python_aborts_a_run(place: Place) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    @place.host.node("llm")
    def model(ctx: NodeContext) -> dict[str, Any]:
        begun.set()
        until(lambda: ctx.cancelled, "the cancellation")
        cancelled.set()
        return {"text": "too late"}

    place.start()
    run = place.submit(chain(llm()), {"q": "Ada"})
    events: list[Told] = []
    reader = threading.Thread(target=lambda: events.extend(place.events(run)))
    reader.start()
    assert begun.wait(60)
    place.stop(run, "enough")
    reader.join(60)

    assert events[-1].type == "graph_run_aborted"
    assert events[-1].data["reason"] == "enough"
    assert place.show(run)["status"] == "stopped"
    assert cancelled.wait(60)
