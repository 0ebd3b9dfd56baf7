"""The parts of `tidemill.graphon` that need no engine."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tidemill import graphon
from tidemill.graphon.dsl import DslError, inspect, loads
from tidemill.graphon.engine import Engine, _core
from tidemill.graphon.engine._commands import apply_before, stops_after
from tidemill.graphon.engine._document import provider, submission
from tidemill.graphon.engine._translate import container_of_frame, to_runtime
from tidemill.graphon.engine.command import AbortCommand, PauseCommand, UpdateVariablesCommand
from tidemill.graphon.errors import CustomNodeError, GraphonDifference
from tidemill.graphon.file import File
from tidemill.graphon.graph import Graph
from tidemill.graphon.graph.validation import GraphValidationError
from tidemill.graphon.nodes.base.node import Node
from tidemill.graphon.nodes.code import CodeNode
from tidemill.graphon.nodes.end.end_node import EndNode
from tidemill.graphon.nodes.start import StartNode
from tidemill.graphon.runtime import InitParams, RuntimeState, VariablePool
from tidemill.graphon.variables import (
    IntegerVariable,
    SecretVariable,
    SegmentType,
    TypeMismatchError,
    build_segment,
    build_segment_with_type,
)
from tidemill.graphon.variables.template_resolution import convert_template

REMOTE = {
    "dify_model_identity": "__dify__file__",
    "type": "image",
    "transfer_method": "remote_url",
    "remote_url": "https://files.example/a.png",
    "filename": "a.png",
}


def state(**variables: Any) -> RuntimeState:
    pool = VariablePool()
    for name, value in variables.items():
        pool.add(name.split("__"), value)
    return RuntimeState(variable_pool=pool, start_at=time.time(), workflow_id="w")


def parts(of: RuntimeState) -> dict[str, Any]:
    config: dict[str, Any] = {"nodes": [], "edges": []}
    return {
        "init_params": InitParams(workflow_id="w", graph_config=config, run_context={}, call_depth=0),
        "runtime_state": of,
    }


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, SegmentType.NONE, ""),
        (True, SegmentType.BOOLEAN, "True"),
        (3, SegmentType.INTEGER, "3"),
        (0.5, SegmentType.FLOAT, "0.5"),
        ("a", SegmentType.STRING, "a"),
        ({"a": "é"}, SegmentType.OBJECT, '{"a": "é"}'),
        (["a"], SegmentType.ARRAY_STRING, '["a"]'),
        ([1, 0.5], SegmentType.ARRAY_NUMBER, "[1, 0.5]"),
        ([1, "a"], SegmentType.ARRAY_ANY, "[1, 'a']"),
        ([True], SegmentType.ARRAY_BOOLEAN, "[True]"),
        ([], SegmentType.ARRAY_ANY, ""),
    ],
)
def test_a_value_has_its_type_and_its_text(value: Any, kind: SegmentType, text: str) -> None:
    segment = build_segment(value)
    assert (segment.value_type, segment.text) == (kind, text)
    assert kind.is_valid(value)


def test_a_value_of_another_type_is_refused() -> None:
    assert build_segment_with_type(SegmentType.ARRAY_STRING, []).value_type is SegmentType.ARRAY_STRING
    with pytest.raises(TypeMismatchError, match="expected number, but the value is string"):
        build_segment_with_type(SegmentType.NUMBER, "3")
    with pytest.raises(ValueError, match="a run cannot have the value"):
        build_segment(object())


def test_a_selector_leads_into_objects_and_files() -> None:
    pool = state(start__o={"a": {"b": 2}}, start__f=File(**REMOTE)).variable_pool
    found = {path: pool.get(path.split(".")) for path in ("start.o.a.b", "start.f.name", "start.f.nothing", "start.x")}
    assert {path: None if it is None else it.value for path, it in found.items()} == {
        "start.o.a.b": 2,
        "start.f.name": "a.png",
        "start.f.nothing": None,
        "start.x": None,
    }
    assert convert_template(pool, "<{{#start.o.a.b#}} {{#start.x#}}>").text == "<2 start.x>"


def test_files_among_values_are_file_objects() -> None:
    found = to_runtime({"list": [REMOTE], "text": "a"})
    assert isinstance(found["list"][0], File)
    assert found["list"][0].markdown == "![a.png](https://files.example/a.png)"


def test_the_innermost_container_of_a_frame() -> None:
    frames = ("each#0", "outer#1/inner#2", "a%2Fb#3")
    assert [container_of_frame(frame) for frame in frames] == ["each", "inner", "a/b"]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        (
            "openai",
            {"openai_api_key": "k", "openai_api_base": "https://api.openai.com"},
            {"kind": "openai_compatible", "api_key": "k", "base_url": "https://api.openai.com/v1"},
        ),
        (
            "gateway",
            {"api_key": "k", "endpoint_url": "http://gateway/models/v1/"},
            {"kind": "openai_compatible", "api_key": "k", "base_url": "http://gateway/models/v1"},
        ),
        ("langgenius/anthropic/anthropic", {"anthropic_api_key": "k"}, {"kind": "anthropic", "api_key": "k"}),
    ],
)
def test_credentials_are_settings_of_a_provider(name: str, values: Any, expected: Any) -> None:
    assert provider(name, values) == expected


def test_commands_from_before_the_run() -> None:
    pool = VariablePool()
    update = UpdateVariablesCommand(updates=[IntegerVariable(name="n", value=3, selector=["start", "n"])])
    pause, abort = PauseCommand(reason="wait"), AbortCommand()
    assert apply_before([update, pause, abort], pool) == [pause, abort]
    assert pool.get_by_prefix("start") == {"n": 3}
    stops, rest = stops_after("start", [pause, abort])
    assert stops == {"commands": [{"after": "start", "command": "pause", "reason": "wait"}]}
    assert rest == [abort]


def test_the_text_of_a_state_has_no_secrets() -> None:
    secret = SecretVariable(name="KEY", value="sk-very-secret", selector=["env", "KEY"])
    before = state(env__KEY=secret, start__n=3)
    before.set_output("answer", "hi")
    before.snapshot = b"a paused run"
    text = before.dumps()
    after = RuntimeState.from_snapshot(text)
    assert "sk-very-secret" not in text + repr(secret) + secret.log
    assert (after.outputs, after.snapshot) == ({"answer": "hi"}, b"a paused run")
    assert after.variable_pool.get_by_prefix("start") == {"n": 3}
    with pytest.raises(ValueError, match="graphon itself has paused"):
        RuntimeState.from_snapshot('{"version": "3.0"}')


def test_objects_that_are_not_called_are_warned_about() -> None:
    with pytest.warns(GraphonDifference, match="CodeNode: code_executor is not called"):
        CodeNode("code", {"title": "Code"}, code_executor=object(), **parts(state()))


def test_a_node_class_of_ones_own_is_refused_with_what_to_do() -> None:
    class Own(Node[Any]):
        node_type = "own"

    given = state()
    graph = Graph.new().add_root(StartNode("start", {}, **parts(given))).add_node(Own("mine", {}, **parts(given)))
    with pytest.raises(CustomNodeError, match=r"node 'mine' has the class Own.*@engine.node\(id=...\)"):
        submission(graph.build(), given.variable_pool, {})


def test_the_variables_of_a_run_are_its_inputs_and_its_file() -> None:
    given = state(start__q="hi", sys__user_id="u", env__N=3, conversation__mood=["calm"])
    end = EndNode("end", {"outputs": []}, **parts(given))
    graph = Graph.new().add_root(StartNode("start", {"title": "Start"}, **parts(given))).add_node(end).build()
    made = submission(graph, given.variable_pool, {"max_steps": 7})
    workflow = made.workflow["workflow"]
    assert (made.inputs, made.sys) == ({"q": "hi"}, {"user_id": "u"})
    assert workflow["environment_variables"][0]["value_type"] == "number"
    assert workflow["conversation_variables"][0]["value"] == ["calm"]
    assert workflow["tidemill"] == {"max_steps": 7}
    assert made.workflow["app"]["mode"] == "workflow"


def test_a_circle_is_refused() -> None:
    given = state()
    start, end = StartNode("start", {}, **parts(given)), EndNode("end", {"outputs": []}, **parts(given))
    builder = Graph.new().add_root(start).add_node(end).connect(tail="end", head="start")
    with pytest.raises(GraphValidationError, match="the graph has a cycle"):
        builder.build()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "parse.expected_mapping"),
        ("a: [", "parse.invalid_yaml"),
        ("app: {}", "kind.missing"),
        ("kind: song", "kind.unsupported"),
        ("{kind: app, app: {mode: workflow}}", "graph.missing_workflow"),
        ("{kind: app, app: {mode: workflow}, workflow: {}}", "graph.missing"),
    ],
)
def test_a_file_that_is_no_workflow_is_refused_with_graphons_code(text: str, code: str) -> None:
    with pytest.raises(DslError) as refused:
        inspect(text)
    assert refused.value.code == code


def test_wrong_credentials_are_named_without_their_values() -> None:
    file = "{kind: app, app: {mode: workflow}, workflow: {graph: {nodes: [{id: s, data: {type: start}}], edges: []}}}"
    with pytest.raises(DslError) as refused:
        loads(file, credentials={"model_credentials": [{"values": "sk-secret"}]})
    assert "model_credentials.0.values" in str(refused.value)
    assert "sk-secret" not in str(refused.value)


def test_an_engine_takes_only_nodes_of_its_own_state() -> None:
    graph = Graph.new().add_root(StartNode("start", {}, **parts(state()))).build()
    with pytest.raises(ValueError, match="another runtime_state"):
        Engine(graph, state())


def test_the_number_of_engines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        def close(self) -> None: ...

    monkeypatch.setattr(_core, "_start", lambda _providers: Fake())
    monkeypatch.setattr(_core, "_engines", {})
    monkeypatch.setattr(_core, "ENGINES_MAX", 2)
    first = _core.core({})
    assert _core.core({}) is first
    _core.core({"a": {}})
    with pytest.raises(RuntimeError, match="ENGINES_MAX"):
        _core.core({"b": {}})
    graphon.close_engines()
    assert _core.core({"b": {}}) is not first
