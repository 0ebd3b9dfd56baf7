"""Forms of human-input nodes whose answers the program decides (``hitl_callback``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..engine_events.node import NodeRunPauseRequestedEvent
from ..entities.pause_reason import HitlRequired
from ..graph.graph import Graph
from ..nodes.human_input.entities import Completed, Expired, HITLContext, HITLDecision, PauseRequested
from ..runtime.read_only_wrappers import ReadOnlyVariablePoolWrapper
from ..runtime.runtime_state import RuntimeState


def decide(event: NodeRunPauseRequestedEvent, graph: Graph, state: RuntimeState) -> None:
    """Ask the program about a form that has just opened; its session id is that of the program."""
    decision = _ask(event.node_id, graph, state)
    if isinstance(decision, PauseRequested) and isinstance(event.reason, HitlRequired):
        event.reason = event.reason.model_copy(update={"session_id": decision.session_id})


def continued(run: Any, graph: Graph, state: RuntimeState) -> Iterator[Any]:
    """Yield the events of a run that goes on from a snapshot.

    Such a run is paused at first. Then the answers that the program has now are sent, and a pause of a command ends.
    The events up to there are shown only if the run waits on.
    """
    first: list[Any] = []
    natives = iter(run)
    for native in natives:
        first.append(native)
        if native.type != "graph_run_paused":
            continue
        goes_on = _answer(run, graph, state)
        if any(reason.get("TYPE") == "scheduled_pause" for reason in native.data.get("reasons", [])):
            run.resume()
            goes_on = True
        if not goes_on:
            yield from first
        break
    else:
        yield from first
    yield from natives


def _answer(run: Any, graph: Graph, state: RuntimeState) -> bool:
    """Answer the forms for which the program has an answer now. Return true if there was one.

    Raises:
        NotImplementedError: if the program says that a form is too old; Tidemill decides that itself.

    """
    has_answered = False
    for pause in run.pauses():
        if pause.get("status") != "pending":
            continue
        decision = _ask(str(pause.get("node_id")), graph, state)
        if isinstance(decision, Completed):
            fields = {name: it.to_object() for name, it in decision.outputs.items() if not name.startswith("__")}
            run.answer(pause["pause_id"], {"action": decision.selected_handle, "inputs": fields})
            has_answered = True
        elif isinstance(decision, Expired):
            raise NotImplementedError(
                f"node {pause.get('node_id')!r}: a form expires by its own timeout here, not by Expired(...); "
                "set timeout and timeout_unit of the node"
            )
    return has_answered


def _ask(node_id: str, graph: Graph, state: RuntimeState) -> HITLDecision | None:
    node = graph.nodes.get(node_id)
    callback = None if node is None else node.parts.get("hitl_callback")
    if node is None or callback is None:
        return None
    context = HITLContext(
        workflow_execution_id=state.graph_execution.workflow_id,
        node_id=node.id,
        node_title=node.title,
        variable_pool=ReadOnlyVariablePoolWrapper(state.variable_pool),
    )
    decision: HITLDecision = callback(context)
    return decision
