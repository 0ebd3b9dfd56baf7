"""Forms of human-input nodes whose answers the program decides (``hitl_callback``)."""

from __future__ import annotations

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


def answer_forms(run: Any, graph: Graph, state: RuntimeState) -> None:
    """Answer the forms of a continued run for which the program has an answer now.

    Raises:
        NotImplementedError: if the program says that a form is too old; Tidemill decides that itself.

    """
    for pause in run.pauses():
        if pause.get("status") != "pending":
            continue
        decision = _ask(str(pause.get("node_id")), graph, state)
        if isinstance(decision, Completed):
            fields = {name: it.to_object() for name, it in decision.outputs.items() if not name.startswith("__")}
            run.answer(pause["pause_id"], {"action": decision.selected_handle, "inputs": fields})
        elif isinstance(decision, Expired):
            raise NotImplementedError(
                f"node {pause.get('node_id')!r}: a form expires by its own timeout here, not by Expired(...); "
                "set timeout and timeout_unit of the node"
            )


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
