"""Forms of human-input nodes whose answers the program decides (``hitl_callback``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..engine_events.graph import GraphRunPausedEvent
from ..engine_events.node import NodeRunPauseRequestedEvent
from ..entities.pause_reason import HitlRequired, PauseReason
from ..graph.graph import AnyNode, Graph, nodes_of, typed_config
from ..nodes.human_input.entities import Completed, Expired, HITLContext, HITLDecision, PauseRequested
from ..runtime.read_only_wrappers import ReadOnlyVariablePoolWrapper
from ..runtime.runtime_state import RuntimeState


class Forms:
    """The forms of one run, as the program decides about them."""

    def __init__(self, graph: Graph, state: RuntimeState) -> None:
        self._graph = graph
        self._state = state
        self._sessions: dict[str, str] = {}
        """The program's session id of each node."""
        self._inner: dict[str, AnyNode] = {}

    def opened(self, event: NodeRunPauseRequestedEvent) -> None:
        """Ask the program about a form that has just opened; its session id is that of the program."""
        decision = self._ask(event.node_id)
        if isinstance(decision, PauseRequested):
            self._sessions[event.node_id] = decision.session_id
        event.reason = self._named(event.reason)

    def paused(self, event: GraphRunPausedEvent) -> None:
        """Give the reasons of a pause the session ids of the program."""
        event.reasons = [self._named(reason) for reason in event.reasons]
        self._state.graph_execution.pause_reasons = list(event.reasons)

    def continued(self, run: Any) -> Iterator[Any]:
        """Yield the events of a run that goes on from a snapshot.

        Such a run is paused at first. Then the answers that the program has now are sent, and a pause of a command
        ends. The events up to there are shown only if the run waits on.
        """
        first: list[Any] = []
        natives = iter(run)
        for native in natives:
            first.append(native)
            if native.type != "graph_run_paused":
                continue
            goes_on = self._answer(run)
            if any(reason.get("TYPE") == "scheduled_pause" for reason in native.data.get("reasons", [])):
                run.resume()
                goes_on = True
            if goes_on:
                first = []
            break
        yield from first
        yield from natives

    def _answer(self, run: Any) -> bool:
        """Answer the forms for which the program has an answer now. Return true if there was one.

        Raises:
            NotImplementedError: if the program says that a form is too old; Tidemill decides that itself.

        """
        has_answered = False
        for pause in run.pauses():
            if pause.get("status") != "pending":
                continue
            node = str(pause.get("node_id"))
            decision = self._ask(node)
            if isinstance(decision, PauseRequested):
                self._sessions[node] = decision.session_id
            elif isinstance(decision, Completed):
                fields = {name: it.to_object() for name, it in decision.outputs.items() if not name.startswith("__")}
                run.answer(pause["pause_id"], {"action": decision.selected_handle, "inputs": fields})
                has_answered = True
            elif isinstance(decision, Expired):
                raise NotImplementedError(
                    f"node {node!r}: a form expires by its own timeout here, not by Expired(...); "
                    "set timeout and timeout_unit of the node"
                )
        return has_answered

    def _named(self, reason: PauseReason) -> PauseReason:
        if isinstance(reason, HitlRequired) and reason.node_id in self._sessions:
            return reason.model_copy(update={"session_id": self._sessions[reason.node_id]})
        return reason

    def _node(self, node_id: str) -> AnyNode | None:
        """Return a node; one inside of a container is made when it is needed."""
        graph = self._graph
        if node_id not in graph.nodes and node_id not in self._inner and graph.node_factory is not None:
            for config in nodes_of(graph.graph_config):
                if str(config.get("id")) == node_id:
                    self._inner[node_id] = graph.node_factory.create_node(typed_config(config))
        return graph.nodes.get(node_id) or self._inner.get(node_id)

    def _ask(self, node_id: str) -> HITLDecision | None:
        node = self._node(node_id)
        callback = None if node is None else node.parts.get("hitl_callback")
        if node is None or callback is None:
            return None
        context = HITLContext(
            workflow_execution_id=self._state.graph_execution.workflow_id,
            node_id=node.id,
            node_title=node.title,
            variable_pool=ReadOnlyVariablePoolWrapper(self._state.variable_pool),
        )
        decision: HITLDecision = callback(context)
        return decision
