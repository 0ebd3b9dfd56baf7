"""Small programs that use graphon's names. Each takes a package, `graphon` or `tidemill.graphon`, and tells its events.

As a program: `python graphon_programs.py graphon NAME` prints that as JSON, for a Python that has graphon.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import yaml

Seen = dict[str, Any]

BRANCH = """
app: {mode: workflow, name: Branch}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: check
      data:
        type: if-else
        title: Check
        cases:
        - case_id: 'true'
          logical_operator: and
          conditions: [{variable_selector: [start, n], comparison_operator: '>', value: '3', varType: number}]
    - id: big
      data:
        type: template-transform
        title: Big
        template: 'big {{ n }}'
        variables: [{variable: n, value_selector: [start, n]}]
    - id: small
      data:
        type: template-transform
        title: Small
        template: 'small {{ n }}'
        variables: [{variable: n, value_selector: [start, n]}]
    - id: join
      data: {type: variable-aggregator, title: Join, output_type: string, variables: [[big, output], [small, output]]}
    - {id: end, data: {type: end, title: End, outputs: [{variable: text, value_selector: [join, output]}]}}
    edges:
    - {id: e1, source: start, target: check, sourceHandle: source}
    - {id: e2, source: check, target: big, sourceHandle: 'true'}
    - {id: e3, source: check, target: small, sourceHandle: 'false'}
    - {id: e4, source: big, target: join, sourceHandle: source}
    - {id: e5, source: small, target: join, sourceHandle: source}
    - {id: e6, source: join, target: end, sourceHandle: source}
"""

EACH = """
app: {mode: workflow, name: Each}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: each
      data:
        type: iteration
        title: Each
        iterator_selector: [start, list]
        output_selector: [mark, output]
        start_node_id: begin
        is_parallel: false
        parallel_nums: 1
        error_handle_mode: terminated
    - {id: begin, parentId: each, data: {type: iteration-start, title: '', isInIteration: true, iteration_id: each}}
    - id: mark
      parentId: each
      data:
        type: template-transform
        title: Mark
        template: '<{{ x }}>'
        variables: [{variable: x, value_selector: [each, item]}]
        isInIteration: true
        iteration_id: each
    - {id: end, data: {type: end, title: End, outputs: [{variable: all, value_selector: [each, output]}]}}
    edges:
    - {id: e1, source: start, target: each, sourceHandle: source}
    - {id: e2, source: begin, target: mark, sourceHandle: source}
    - {id: e3, source: each, target: end, sourceHandle: source}
"""

FAILS = """
app: {mode: workflow, name: Fails}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: mark
      data:
        type: template-transform
        title: Mark
        template: '{{ x.y.z }}'
        variables: [{variable: x, value_selector: [start, x]}]
    - {id: end, data: {type: end, title: End, outputs: [{variable: all, value_selector: [mark, output]}]}}
    edges:
    - {id: e1, source: start, target: mark, sourceHandle: source}
    - {id: e2, source: mark, target: end, sourceHandle: source}
"""

CHAT = """
app: {mode: advanced-chat, name: Chat}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: mark
      data:
        type: template-transform
        title: Mark
        template: '<{{ q }}>'
        variables: [{variable: q, value_selector: [sys, query]}]
    - {id: answer, data: {type: answer, title: Answer, answer: 'Said: {{#mark.output#}}.'}}
    edges:
    - {id: e1, source: start, target: mark, sourceHandle: source}
    - {id: e2, source: mark, target: answer, sourceHandle: source}
"""

FORM = """
nodes:
- {id: start, data: {type: start, title: Start, variables: []}}
- id: ask
  data:
    type: human-input
    title: Ask
    form_content: 'Fine?'
    inputs: [{type: paragraph, output_variable_name: note}]
    user_actions: [{id: 'yes', title: 'Yes', button_style: primary}]
    timeout: 3
    timeout_unit: hour
    delivery_methods: []
- {id: end, data: {type: end, title: End, outputs: [{variable: note, value_selector: [ask, note]}]}}
edges:
- {id: e1, source: start, target: ask, sourceHandle: source}
- {id: e2, source: ask, target: end, sourceHandle: 'yes'}
"""


class Names:
    """The names of a package, by their paths."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __call__(self, path: str, name: str) -> Any:
        return getattr(importlib.import_module(f"{self._package}.{path}"), name)


def seen(engine: Any) -> Seen:
    """Run an engine; tell the classes of its events, its end, and what became of the nodes."""
    events, raised = [], None
    try:
        events.extend(engine.run())
    except RuntimeError as error:
        raised = str(error)
    return told(engine, events) | {"raised": raised}


def told(engine: Any, events: list[Any]) -> Seen:
    last = events[-1]
    return {
        "events": [type(event).__name__ for event in events],
        "end": {name: getattr(last, name) for name in ("outputs", "error", "reason") if hasattr(last, name)},
        "outputs": engine.runtime_state.outputs,
        "steps": engine.runtime_state.node_run_steps,
        "nodes": {node.id: str(node.state) for node in engine.graph.nodes.values()},
        "edges": {edge.id: str(edge.state) for edge in engine.graph.edges.values()},
    }


def branch(use: Names) -> Seen:
    return seen(use("dsl", "loads")(BRANCH, start_inputs={"n": 5}, workflow_id="w"))


def iteration(use: Names) -> Seen:
    return seen(use("dsl", "loads")(EACH, start_inputs={"list": ["a", "b"]}))


def failure(use: Names) -> Seen:
    return seen(use("dsl", "loads")(FAILS, start_inputs={"x": 1}))


def answer_through_the_filter(use: Names) -> Seen:
    engine = use("dsl", "loads")(CHAT, start_inputs={"query": "hi"})
    context = use("engine.filter", "EngineEventFilterContext").from_engine(engine)
    shown = use("engine.filter", "filter_engine_events")
    events = list(shown(engine.run(), context=context, filters=[use("engine.filter", "ResponseStreamFilter")()]))
    chunk = use("engine_events", "NodeRunStreamChunkEvent")
    texts = "".join(event.chunk for event in events if isinstance(event, chunk))
    others = [event for event in events if not isinstance(event, chunk)]
    return told(engine, others) | {"texts": texts}


def built_node_by_node(use: Names) -> Seen:
    pool = use("runtime", "VariablePool")()
    pool.add(("start", "q"), "hello")
    state = use("runtime", "RuntimeState")(variable_pool=pool, start_at=time.time(), workflow_id="b")
    params = use("runtime", "InitParams")(
        workflow_id="b", graph_config={"nodes": [], "edges": []}, run_context={}, call_depth=0
    )
    both = {"init_params": params, "runtime_state": state}
    start = use("nodes.start", "StartNode")(
        node_id="start", data=use("nodes.start.entities", "StartNodeData")(title="Start"), **both
    )
    output = {"variable": "o", "value_selector": ["start", "q"]}
    end = use("nodes.end.end_node", "EndNode")(
        node_id="end", data=use("nodes.end.entities", "EndNodeData")(title="End", outputs=[output]), **both
    )
    graph = use("graph", "Graph").new().add_root(start).add_node(end).build()
    return seen(use("engine", "Engine")(graph, state))


def aborted_before_the_run(use: Names) -> Seen:
    channel = use("engine.command", "InMemoryChannel")()
    engine = use("dsl", "loads")(BRANCH, start_inputs={"n": 1}, command_channel=channel)
    channel.send_command(use("engine.command", "AbortCommand")(reason="no"))
    found = seen(engine)
    return {"last": found["events"][-1], "end": found["end"]}


def paused_and_continued(use: Names) -> Seen:
    channel = use("engine.command", "InMemoryChannel")()
    engine = use("dsl", "loads")(BRANCH, start_inputs={"n": 1}, command_channel=channel)
    channel.send_command(use("engine.command", "PauseCommand")(reason="wait"))
    events = list(engine.run())
    reasons = [reason.message for reason in events[-1].reasons]
    return {"paused": told(engine, events), "reasons": reasons, "continued": seen(engine)}


def limited(use: Names) -> Seen:
    engine = use("dsl", "loads")(BRANCH, start_inputs={"n": 1})
    engine.add_layer(use("engine.layer", "ExecutionLimitsLayer")(max_steps=2, max_time=100))
    found = seen(engine)
    return {"last": found["events"][-1], "end": found["end"]}


def seen_by_a_layer(use: Names) -> Seen:
    base = use("engine.layer", "Layer")
    calls: list[str] = []

    class Watch(base):  # type: ignore[misc, valid-type]
        def on_graph_start(self) -> None:
            calls.append("start")

        def on_event(self, event: Any) -> None:
            calls.append(type(event).__name__)

        def on_graph_end(self, error: Exception | None) -> None:
            calls.append(f"end {error}")

    engine = use("dsl", "loads")(FAILS, start_inputs={"x": 1})
    engine.add_layer(Watch())
    seen(engine)
    return {"calls": calls}


def form_of_a_callback(use: Names) -> Seen:
    """A form whose answer the program has later; the run goes on from the text of its state."""
    config = yaml.safe_load(FORM)
    answers: dict[str, str] = {}
    entities = "nodes.human_input.entities"
    build = use("variables.factory", "build_segment")

    def decide(context: Any) -> Any:
        if context.node_id not in answers:
            return use(entities, "PauseRequested")(session_id="session-1")
        outputs = {"note": build(answers[context.node_id]), "__action_id": build("yes")}
        return use(entities, "Completed")(selected_handle="yes", inputs={}, outputs=outputs)

    classes = {
        "start": use("nodes.start", "StartNode"),
        "end": use("nodes.end.end_node", "EndNode"),
        "human-input": use("nodes.human_input.human_input_node", "HumanInputNode"),
    }

    class Factory:
        def __init__(self, params: Any, state: Any) -> None:
            self.params, self.state = params, state

        def with_graph_config(self, graph_config: Any) -> Factory:
            return Factory(self.params.model_copy(update={"graph_config": graph_config}), self.state)

        def validate_node(self, node_config: Any) -> Any:
            return classes[node_config["data"].type].execution_type

        def create_node(self, node_config: Any) -> Any:
            data = node_config["data"].model_dump(mode="python")
            cls = classes[data["type"]]
            callback = {"hitl_callback": decide} if data["type"] == "human-input" else {}
            return cls(
                node_id=node_config["id"],
                data=cls.validate_node_data(data),
                init_params=self.params,
                runtime_state=self.state,
                **callback,
            )

    def engine(state: Any) -> Any:
        params = use("runtime", "InitParams")(workflow_id="f", graph_config=config, run_context={}, call_depth=0)
        factory = Factory(params, state)
        graph = use("graph", "Graph").init(graph_config=config, node_factory=factory, root_node_id="start")
        return use("engine", "Engine")(graph, state)

    pool = use("runtime", "VariablePool")()
    pool.add(("sys", "workflow_run_id"), "r")
    state = use("runtime", "RuntimeState")(variable_pool=pool, start_at=time.time(), workflow_id="f")
    events = list(engine(state).run())
    sessions = [reason.session_id for reason in events[-1].reasons]
    answers["ask"] = "fine"
    later = engine(use("runtime", "RuntimeState").from_snapshot(state.dumps()))
    outputs = list(later.run())[-1].outputs
    return {"first": [type(event).__name__ for event in events], "sessions": sessions, "outputs": outputs}


PROGRAMS: dict[str, Callable[[Names], Seen]] = {
    program.__name__: program
    for program in (
        branch,
        iteration,
        failure,
        answer_through_the_filter,
        built_node_by_node,
        aborted_before_the_run,
        paused_and_continued,
        limited,
        seen_by_a_layer,
        form_of_a_callback,
    )
}


def run(package: str, name: str) -> Seen:
    """Run a program; what it saw, as JSON has it."""
    found = PROGRAMS[name](Names(package))
    plain: Seen = json.loads(json.dumps(found, default=lambda value: value.value))
    return plain


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2])))
