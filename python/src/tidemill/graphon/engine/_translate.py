"""Turns the events of a Tidemill run into the events of this surface, and keeps graph and state up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from .. import engine_events as made
from .._json import is_list, is_object
from ..engine_events.base import EngineEvent, NodeEvent
from ..enums import BuiltinNodeTypes, NodeState
from ..file.constants import FILE_MODEL_IDENTITY
from ..file.models import File
from ..graph.edge import Edge
from ..graph.graph import Graph, all_edges, data_of, nodes_of
from ..model_runtime.entities.llm_entities import LLMUsage
from ..runtime.execution import ROOT_FRAME_ID
from ..runtime.runtime_state import RuntimeState
from ..variables.factory import build_segment, segment_to_variable

# Nodes whose texts an engine shows while they come. Other texts belong to answers alone.
_STREAMING = frozenset(
    (
        BuiltinNodeTypes.LLM,
        BuiltinNodeTypes.AGENT,
        BuiltinNodeTypes.TOOL,
        BuiltinNodeTypes.QUESTION_CLASSIFIER,
    )
)
_CLASSES: dict[str, type[EngineEvent]] = {
    "graph_run_started": made.GraphRunStartedEvent,
    "graph_run_succeeded": made.GraphRunSucceededEvent,
    "graph_run_partial_succeeded": made.GraphRunPartialSucceededEvent,
    "graph_run_failed": made.GraphRunFailedEvent,
    "graph_run_aborted": made.GraphRunAbortedEvent,
    "graph_run_paused": made.GraphRunPausedEvent,
    "graph_edge_skipped": made.GraphEdgeSkippedEvent,
    "node_run_started": made.NodeRunStartedEvent,
    "node_run_stream_chunk": made.NodeRunStreamChunkEvent,
    "node_run_succeeded": made.NodeRunSucceededEvent,
    "node_run_failed": made.NodeRunFailedEvent,
    "node_run_exception": made.NodeRunExceptionEvent,
    "node_run_retry": made.NodeRunRetryEvent,
    "node_run_pause_requested": made.NodeRunPauseRequestedEvent,
    "node_run_variable_updated": made.NodeRunVariableUpdatedEvent,
    "node_run_human_input_form_filled": made.NodeRunHumanInputFormFilledEvent,
    "node_run_human_input_form_timeout": made.NodeRunHumanInputFormTimeoutEvent,
    "node_run_iteration_started": made.NodeRunIterationStartedEvent,
    "node_run_iteration_next": made.NodeRunIterationNextEvent,
    "node_run_iteration_succeeded": made.NodeRunIterationSucceededEvent,
    "node_run_iteration_failed": made.NodeRunIterationFailedEvent,
    "node_run_loop_started": made.NodeRunLoopStartedEvent,
    "node_run_loop_next": made.NodeRunLoopNextEvent,
    "node_run_loop_succeeded": made.NodeRunLoopSucceededEvent,
    "node_run_loop_failed": made.NodeRunLoopFailedEvent,
}
LAST = frozenset(
    (
        "graph_run_succeeded",
        "graph_run_partial_succeeded",
        "graph_run_failed",
        "graph_run_aborted",
        "graph_run_paused",
    )
)
"""The native events after which no other one is shown."""


def to_runtime(value: Any) -> Any:
    """Return a JSON value as a run has it: files are :class:`File` objects."""
    if is_object(value):
        if value.get("dify_model_identity") == FILE_MODEL_IDENTITY:
            return File(**value)
        return {key: to_runtime(item) for key, item in value.items()}
    if is_list(value):
        return [to_runtime(item) for item in value]
    return value


def utc(seconds: Any) -> datetime:
    """Return a time in Unix seconds as graphon has it: in UTC, and without saying so."""
    return datetime.fromtimestamp(float(seconds), timezone.utc).replace(tzinfo=None)


def container_of_frame(frame: str) -> str:
    """Return the innermost container of a frame such as ``each#0/inner#2``."""
    last = frame.rsplit("/", maxsplit=1)[-1]
    name = last.rsplit("#", maxsplit=1)[0]
    for code, sign in (("%2F", "/"), ("%23", "#"), ("%25", "%")):
        name = name.replace(code, sign)
    return name


class Translator:
    """Translates the events of one run, in order."""

    def __init__(self, graph: Graph, state: RuntimeState) -> None:
        self._graph = graph
        self._state = state
        # Those of the graph itself, and those inside of containers, which it does not have.
        self._edges = [graph.edges.get(edge.id, edge) for edge in all_edges(graph.graph_config)]
        self._starts = {
            str(data_of(it).get("start_node_id") or ""): str(it.get("id"))
            for it in nodes_of(graph.graph_config)
            if data_of(it).get("type") in (BuiltinNodeTypes.ITERATION, BuiltinNodeTypes.LOOP)
        }
        self._iterations = {
            str(it.get("id"))
            for it in nodes_of(graph.graph_config)
            if data_of(it).get("type") == BuiltinNodeTypes.ITERATION
        }
        self._texts: list[EngineEvent] = []

    def translate(self, kind: str, data: Mapping[str, Any]) -> list[EngineEvent]:
        """Return the events that a native one stands for; often one, sometimes none."""
        cls = _CLASSES.get(kind)
        if cls is None or data.get("is_virtual"):
            return []
        if data.get("node_id") in self._starts and kind.startswith("node_run_"):
            return []
        event = self._event(cls, data)
        if isinstance(event, made.NodeRunStreamChunkEvent) and self._is_answers_alone(event):
            self._texts.append(event)
            return []
        events = [*self._edges_before(event, str(data.get("frame") or "")), event]
        frame = str(data.get("frame") or "")
        if not (isinstance(event, made.NodeRunVariableUpdatedEvent) and self._is_in_iteration(frame)):
            self._note(event, is_root=not frame)
        events.extend(self._edges_into(event, data))
        events[0]._texts_before = self._texts  # pyright: ignore[reportPrivateUsage]
        self._texts = []
        return events

    def _event(self, cls: type[EngineEvent], data: Mapping[str, Any]) -> EngineEvent:
        fields = {key: value for key, value in data.items() if key in cls.model_fields and value is not None}
        frame = str(data.get("frame") or "")
        fields["container_id"] = container_of_frame(frame) if frame else ""
        if issubclass(cls, NodeEvent):
            fields["node_run_result"] = _result(data.get("node_run_result") or {})
            # A text in front of the first node belongs to no execution yet.
            fields.setdefault("id", "")
        if cls is made.GraphEdgeSkippedEvent:
            fields["frame_id"] = frame or ROOT_FRAME_ID
            edge = self._edge(data)
            fields["edge_id"] = edge.id if edge else fields["edge_id"]
        if cls is made.NodeRunVariableUpdatedEvent:
            fields["variable"] = _variable(data)
        if cls is made.NodeRunRetryEvent:
            fields.setdefault("start_at", data.get("finished_at") or 0)
        for name in ("start_at", "finished_at", "expiration_time"):
            if name in fields:
                fields[name] = utc(fields[name])
        for name in ("outputs", "inputs", "submitted_data"):
            if name in fields:
                fields[name] = to_runtime(fields[name])
        event = cls.model_validate(fields)
        if isinstance(event, made.NodeRunStreamChunkEvent):
            event._is_in_answer = data.get("in_answer") is not False  # pyright: ignore[reportPrivateUsage]
        return event

    def _is_answers_alone(self, event: made.NodeRunStreamChunkEvent) -> bool:
        return event.node_type not in _STREAMING or list(event.selector)[:1] != [event.node_id]

    def _is_in_iteration(self, frame: str) -> bool:
        """True inside of an iteration, which keeps what its nodes write to itself."""
        around = {container_of_frame(part) for part in frame.split("/") if part}
        return not around.isdisjoint(self._iterations)

    def _edges_before(self, event: EngineEvent, frame: str) -> list[EngineEvent]:
        """The edges that a node's end takes. They come in front of it, as those that it skips."""
        if not isinstance(event, (made.NodeRunSucceededEvent, made.NodeRunExceptionEvent)):
            return []
        handle = event.node_run_result.edge_source_handle
        return [
            self._taken(edge, frame, event.container_id)
            for edge in self._edges
            if edge.tail == event.node_id and edge.source_handle == handle
        ]

    def _edges_into(self, event: EngineEvent, data: Mapping[str, Any]) -> list[EngineEvent]:
        """The edges from the start of a container, when an item or round begins."""
        if isinstance(event, (made.NodeRunIterationNextEvent, made.NodeRunLoopNextEvent)):
            index = event.index
        elif isinstance(event, made.NodeRunLoopStartedEvent):
            index = 0
        else:
            return []
        above = f"{data['frame']}/" if data.get("frame") else ""
        frame = f"{above}{event.node_id}#{index}"
        starts = {start for start, owner in self._starts.items() if owner == event.node_id}
        return [self._taken(edge, frame, event.node_id) for edge in self._edges if edge.tail in starts]

    def _taken(self, edge: Edge, frame: str, container: str) -> EngineEvent:
        self._mark(edge, NodeState.TAKEN)
        return made.GraphEdgeTakenEvent(
            container_id=container,
            frame_id=frame or ROOT_FRAME_ID,
            edge_id=edge.id,
            source_node_id=edge.tail,
            target_node_id=edge.head,
            source_handle=edge.source_handle,
        )

    def _edge(self, data: Mapping[str, Any]) -> Edge | None:
        wanted = (data.get("source_node_id"), data.get("target_node_id"), data.get("source_handle") or "source")
        found = next((it for it in self._edges if (it.tail, it.head, it.source_handle) == wanted), None)
        if found:
            self._mark(found, NodeState.SKIPPED)
        return found

    def _mark(self, edge: Edge, state: NodeState) -> None:
        edge.state = state
        target = self._graph.nodes.get(edge.head)
        if target is None or target.state is NodeState.TAKEN:
            return
        before = [it.state for it in self._edges if it.head == edge.head]
        if state is NodeState.TAKEN or all(it is NodeState.SKIPPED for it in before):
            target.state = state

    def _note(self, event: EngineEvent, *, is_root: bool) -> None:
        """Bring the state of the run up to date."""
        for cls, note in self._notes().items():
            if type(event) is cls:
                note(event, is_root)

    def _notes(self) -> dict[type[EngineEvent], Callable[[Any, bool], None]]:
        return {
            made.NodeRunStartedEvent: self._started,
            made.NodeRunSucceededEvent: self._ended,
            made.NodeRunExceptionEvent: self._ended,
            made.NodeRunFailedEvent: self._failed,
            made.NodeRunRetryEvent: self._failed,
            made.NodeRunVariableUpdatedEvent: self._variable_updated,
            made.GraphRunStartedEvent: self._graph_started,
            made.GraphRunSucceededEvent: self._graph_ended,
            made.GraphRunPartialSucceededEvent: self._graph_ended,
            made.GraphRunFailedEvent: self._graph_ended,
            made.GraphRunAbortedEvent: self._graph_ended,
            made.GraphRunPausedEvent: self._graph_paused,
        }

    def _started(self, event: made.NodeRunStartedEvent, is_root: bool) -> None:
        node = self._graph.nodes.get(event.node_id)
        if node is not None:
            node.state = NodeState.TAKEN
            node.execution_id = event.id
        if is_root:
            self._state.increment_node_run_steps()

    def _ended(self, event: NodeEvent, is_root: bool) -> None:
        self._state.add_llm_usage(event.node_run_result.llm_usage)
        if type(event) is made.NodeRunExceptionEvent:
            self._state.graph_execution.exceptions_count += 1
        if is_root and event.node_id != self._graph.root_node.id:
            for name, value in event.node_run_result.outputs.items():
                self._state.variable_pool.add((event.node_id, name), value)

    def _failed(self, event: NodeEvent, is_root: bool) -> None:
        del event, is_root
        self._state.graph_execution.exceptions_count += 1

    def _variable_updated(self, event: made.NodeRunVariableUpdatedEvent, is_root: bool) -> None:
        del is_root
        self._state.variable_pool.add(event.variable.selector, event.variable)

    def _graph_started(self, event: made.GraphRunStartedEvent, is_root: bool) -> None:
        del event, is_root
        run = self._state.graph_execution
        run.started, run.paused, run.pause_reasons = True, False, []

    def _graph_paused(self, event: made.GraphRunPausedEvent, is_root: bool) -> None:
        del is_root
        run = self._state.graph_execution
        run.paused, run.pause_reasons = True, list(event.reasons)
        event.outputs = event.outputs or self._state.outputs

    def _graph_ended(self, event: Any, is_root: bool) -> None:
        del is_root
        run = self._state.graph_execution
        run.completed = True
        count = getattr(event, "exceptions_count", None)
        run.exceptions_count = run.exceptions_count if count is None else count
        if isinstance(event, made.GraphRunFailedEvent):
            run.error = RuntimeError(event.error)
        elif isinstance(event, made.GraphRunAbortedEvent):
            run.aborted, run.error = True, RuntimeError(event.reason or "")
        outputs = getattr(event, "outputs", None)
        if outputs:
            self._state.outputs = outputs


def _result(data: Mapping[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in data.items() if value is not None}
    result["llm_usage"] = LLMUsage.from_metadata(data.get("llm_usage") or {})
    for name in ("inputs", "outputs", "process_data"):
        result[name] = to_runtime(data.get(name) or {})
    return result


def _variable(data: Mapping[str, Any]) -> Any:
    told = data.get("variable") or data
    selector = list(told.get("selector") or data.get("selector") or ["", ""])
    value = to_runtime(told.get("value", data.get("value")))
    return segment_to_variable(segment=build_segment(value), selector=selector)
