"""The engine: runs a graph on Tidemill, in this process, and yields its events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from ..engine_events.base import EngineEvent, NodeEvent
from ..engine_events.graph import GraphRunPausedEvent
from ..engine_events.node import (
    NodeRunExceptionEvent,
    NodeRunFailedEvent,
    NodeRunPauseRequestedEvent,
    NodeRunStartedEvent,
    NodeRunSucceededEvent,
)
from ..graph.graph import Graph
from ..runtime.read_only_wrappers import ReadOnlyRuntimeStateWrapper
from ..runtime.runtime_state import RuntimeState
from ._commands import Pump, apply_before, apply_command, stops_after
from ._core import core
from ._document import provider, submission
from ._forms import Forms
from ._translate import LAST, Translator
from .command.builtin.in_memory import InMemoryChannel
from .command.entities import AbortCommand, Command
from .command.protocol import CommandChannel
from .layer.base import Layer
from .layer.builtin.execution_limits import ExecutionLimitsLayer

logger = logging.getLogger(__name__)


class Engine:
    """Runs a graph on Tidemill, in this process, and yields its events."""

    def __init__(
        self,
        graph: Graph,
        runtime_state: RuntimeState,
        command_channel: CommandChannel | None = None,
        workers: int = 5,
        container_handler_factories: Sequence[Any] = (),
        *,
        file_runtime: Any = None,
        source: Mapping[str, Any] | None = None,
        providers: Mapping[str, Any] | None = None,
    ) -> None:
        """Build an engine for one run.

        Args:
            graph: the nodes and edges.
            runtime_state: variables before the run; afterwards also outputs and counts.
            command_channel: carries commands to the run.
            workers: checked, and not used: Tidemill decides how much runs at once (setting ``worker.permits``).
            container_handler_factories: must be empty; iterations and loops are Tidemill's.
            file_runtime: kept for filters, and not used.
            source: the workflow file that the graph came from.
            providers: settings of model providers, as in ``[providers.NAME]`` of Tidemill's settings.

        Raises:
            ValueError: for a number of workers below 1, handlers of containers, or a node with another state.

        """
        if workers < 1:
            raise ValueError("workers must be a number from 1")
        if container_handler_factories:
            raise ValueError("container_handler_factories: iterations and loops of your own are not executed here")
        for node in graph.nodes.values():
            if node.runtime_state is not runtime_state:
                raise ValueError(f"node {node.id!r} has another runtime_state than the engine")
        self.graph = graph
        self.runtime_state = runtime_state
        self.command_channel: CommandChannel = command_channel or InMemoryChannel()
        self.file_runtime = file_runtime
        self.tidemill_run: Any = None
        """The :class:`tidemill.Run` that executes the graph; None before :meth:`run`."""
        self._layers: list[Layer] = []
        self._forms = Forms(graph, runtime_state)
        self._source = source
        self._providers = {**(providers or {}), **_providers_of(graph)}

    def add_layer(self, layer: Layer) -> None:
        """Let a layer see the events of the run."""
        self._layers.append(layer)
        layer.initialize(ReadOnlyRuntimeStateWrapper(self.runtime_state), self.command_channel)

    def request_abort(self, reason: str | None = None) -> None:
        """End the run. Any thread may call this."""
        self.command_channel.send_command(AbortCommand(reason=reason or "User requested abort"))

    def run(self) -> Generator[EngineEvent, None, None]:
        """Run the graph, or continue it after a pause. Closing the generator ends the run.

        Raises:
            RuntimeError: with the run's error, after :class:`GraphRunFailedEvent`.

        """
        self._each(lambda layer: layer.on_graph_start(), "on_graph_start")
        try:
            yield from self._run()
        finally:
            error = self.runtime_state.graph_execution.error
            self._each(lambda layer: layer.on_graph_end(error), "on_graph_end")

    def _run(self) -> Generator[EngineEvent, None, None]:
        translator = Translator(self.graph, self.runtime_state)
        execution = self.runtime_state.graph_execution
        try:
            for kind, data in self._natives():
                for event in translator.translate(kind, data):
                    self._complete(event)
                    self._see(event)
                    yield event
        except Exception as error:
            started: list[tuple[str, dict[str, Any]]] = [] if execution.started else [("graph_run_started", {})]
            for kind, data in (*started, ("graph_run_failed", {"error": str(error)})):
                for event in translator.translate(kind, data):
                    self._see(event)
                    yield event
            raise
        if execution.error and not execution.aborted:
            raise execution.error

    def _natives(self) -> Generator[tuple[str, Mapping[str, Any]], None, None]:
        """Start the run, or continue it, and yield its native events; send commands meanwhile."""
        state = self.runtime_state
        commands = apply_before(self.command_channel.fetch_commands(), state.variable_pool)
        abort = next((it for it in commands if isinstance(it, AbortCommand)), None)
        if abort is not None:
            yield "graph_run_started", {}
            yield "graph_run_aborted", {"reason": f"Aborted: {abort.reason or 'User requested abort'}"}
            return
        is_resumed = state.snapshot is not None
        run = self._start(commands)
        natives = self._forms.continued(run) if is_resumed else iter(run)
        has_ended = False
        with Pump(run, self.command_channel) as pump:
            try:
                for native in natives:
                    has_ended = native.type in LAST
                    yield native.type, native.data
                    if has_ended:
                        break
                    # A layer may have sent a command when it saw the event.
                    pump.fetch()
            finally:
                if not has_ended:
                    apply_command(run, AbortCommand(reason="the program has stopped reading the events"))

    def _start(self, commands: list[Command]) -> Any:
        engine = core(self._providers)
        state = self.runtime_state
        if state.snapshot is not None:
            run, state.snapshot = engine.resume(state.snapshot), None
            self.graph.take_states(state.graph_states)
            later = commands
        else:
            given = submission(self.graph, state.variable_pool, self._options(), self._source)
            stops, later = stops_after(self.graph.root_node.id, commands)
            run = engine.run(given.workflow, given.inputs, sys=given.sys, **stops)
        self.tidemill_run = run
        for command in later:
            apply_command(run, command)
        return run

    def _options(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for layer in self._layers:
            if isinstance(layer, ExecutionLimitsLayer):
                found.update(layer.options())
        return found

    def _complete(self, event: EngineEvent) -> None:
        """Add what only this process knows."""
        if isinstance(event, NodeRunPauseRequestedEvent):
            self._forms.opened(event)
        if isinstance(event, GraphRunPausedEvent) and self.tidemill_run is not None:
            self._forms.paused(event)
            self.runtime_state.graph_states = self.graph.states()
            self.runtime_state.snapshot = self.tidemill_run.snapshot()
            # The snapshot goes on; the run that it was taken from must not go on as well.
            _quietly(lambda: self.tidemill_run.stop("it goes on from a snapshot"))

    def _see(self, event: EngineEvent) -> None:
        self._each(lambda layer: layer.on_event(event), "on_event")
        node = self.graph.nodes.get(event.node_id) if isinstance(event, NodeEvent) else None
        if node is None or not isinstance(event, NodeEvent):
            return
        if type(event) is NodeRunStartedEvent:
            self._each(lambda layer: layer.on_node_run_start(node), "on_node_run_start")
        elif isinstance(event, (NodeRunFailedEvent, NodeRunExceptionEvent)):
            error = RuntimeError(event.error)
            self._each(lambda layer: layer.on_node_run_end(node, error, event), "on_node_run_end")
        elif isinstance(event, (NodeRunSucceededEvent, NodeRunPauseRequestedEvent)):
            self._each(lambda layer: layer.on_node_run_end(node, None, event), "on_node_run_end")

    def _each(self, call: Callable[[Layer], None], name: str) -> None:
        for layer in self._layers:
            try:
                call(layer)
            except Exception:
                logger.exception("%s of %s failed", name, type(layer).__name__)


def _quietly(call: Callable[[], None]) -> None:
    """Make a call that may come too late."""
    try:
        call()
    except Exception as error:
        logger.debug("the run is over already: %s", error)


def _providers_of(graph: Graph) -> dict[str, Any]:
    """The settings of the model providers that nodes were given with their model."""
    found: dict[str, Any] = {}
    for node in graph.nodes.values():
        model = node.parts.get("model_instance")
        credentials = getattr(model, "tidemill_credentials", None)
        if model is not None and credentials is not None:
            found[model.provider] = provider(model.provider, credentials)
    return found
