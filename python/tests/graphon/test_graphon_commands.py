"""Commands reach a run while its nodes work, and an engine of one's own executes the nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import tidemill
from tidemill import graphon
from tidemill.graphon.dsl import loads
from tidemill.graphon.engine.command import AbortCommand, InMemoryChannel, UpdateVariablesCommand
from tidemill.graphon.engine_events import EngineEvent, GraphRunAbortedEvent, NodeRunStartedEvent
from tidemill.graphon.variables import StringVariable

SECONDS_MAX = 30
MODEL = """
app: {mode: workflow, name: Model}
kind: app
version: 0.6.0
workflow:
  conversation_variables: [{id: m, name: mood, value_type: string, value: calm, selector: [conversation, mood]}]
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: say
      data:
        type: llm
        title: Say
        model: {provider: none, name: none, mode: chat}
        prompt_template: [{role: user, text: '{{#start.q#}}'}]
        context: {enabled: false}
    - id: mark
      data:
        type: template-transform
        title: Mark
        template: '{{ text }} {{ mood }}'
        variables:
        - {variable: text, value_selector: [say, text]}
        - {variable: mood, value_selector: [conversation, mood]}
    - {id: end, data: {type: end, title: End, outputs: [{variable: text, value_selector: [mark, output]}]}}
    edges:
    - {id: e1, source: start, target: say}
    - {id: e2, source: say, target: mark}
    - {id: e3, source: mark, target: end}
"""


class Model:
    """A model whose calls wait until the test lets them go on."""

    def __init__(self) -> None:
        self.engine = tidemill.Engine({})
        self.waits = threading.Event()
        self.go_on = threading.Event()
        self.cancelled = threading.Event()
        self.engine.node("llm")(self._answer)

    def _answer(self, ctx: tidemill.NodeContext) -> Iterator[str]:
        yield "Hello "
        self.waits.set()
        while not self.go_on.wait(0.01):
            if ctx.cancelled:
                self.cancelled.set()
                return
        yield ctx.render("{{#start.q#}}")


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    graphon.use_engine(made.engine)
    yield made
    graphon.use_engine(None)
    made.engine.close()


def test_a_run_is_aborted_while_a_node_works(model: Model) -> None:
    channel = InMemoryChannel()
    engine = loads(MODEL, start_inputs={"q": "Ada"}, command_channel=channel)

    # A job that is aborted before its worker takes it never calls the model.
    def abort_when_the_model_waits() -> None:
        if model.waits.wait(SECONDS_MAX):
            channel.send_command(AbortCommand(reason="enough"))

    threading.Thread(target=abort_when_the_model_waits).start()
    events = list(engine.run())
    assert isinstance(events[-1], GraphRunAbortedEvent)
    assert events[-1].reason == "Aborted: enough"
    assert model.cancelled.wait(SECONDS_MAX)
    assert engine.runtime_state.graph_execution.aborted


def test_a_variable_is_set_while_a_node_works(model: Model) -> None:
    engine = loads(MODEL, start_inputs={"q": "Ada"})
    wild = StringVariable(name="mood", value="wild", selector=["conversation", "mood"])
    for event in engine.run():
        if _is_start(event, "say"):
            engine.command_channel.send_command(UpdateVariablesCommand(updates=[wild]))
            threading.Thread(target=_go_on_when_updated, args=[engine.tidemill_run, model]).start()
    assert engine.runtime_state.outputs == {"text": "Hello Ada wild"}


def _is_start(event: EngineEvent, node: str) -> bool:
    return isinstance(event, NodeRunStartedEvent) and event.node_id == node


def _go_on_when_updated(run: tidemill.Run, model: Model) -> None:
    for event in run:
        if event.type == "graph_run_variables_updated":
            model.go_on.set()
            return


def test_a_program_that_stops_reading_ends_the_run(model: Model) -> None:
    engine = loads(MODEL, start_inputs={"q": "Ada"})
    events = engine.run()
    while not _is_start(next(events), "say"):
        pass
    events.close()
    assert model.cancelled.wait(SECONDS_MAX)
    with pytest.raises(tidemill.RunStopped, match="the program has stopped reading"):
        engine.tidemill_run.result(timeout=SECONDS_MAX)


def test_a_file_that_the_engine_refuses_is_a_failed_run(model: Model) -> None:
    wrong = MODEL.replace("provider: none, name: none, mode: chat", "provider: none, name: none, mode: song")
    engine = loads(wrong.replace("type: llm", "type: parameter-extractor"), start_inputs={"q": "Ada"})
    seen: list[str] = []
    with pytest.raises(tidemill.Refused):
        seen.extend(type(event).__name__ for event in engine.run())
    assert engine.runtime_state.graph_execution.error is not None
