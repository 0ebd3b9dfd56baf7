"""Layers: objects that see the events of a run and may send commands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...engine_events.base import EngineEvent, NodeEvent
from ...nodes.base.node import Node
from ...runtime.read_only_wrappers import ReadOnlyRuntimeStateWrapper
from ..command.protocol import CommandChannel


class Layer:
    """Sees the events of a run and may send commands. Override the methods that you need."""

    def __init__(self) -> None:
        self._runtime_state: ReadOnlyRuntimeStateWrapper | None = None
        self.command_channel: CommandChannel | None = None

    @property
    def runtime_state(self) -> ReadOnlyRuntimeStateWrapper:
        """The state of the run.

        Raises:
            RuntimeError: before ``Engine.add_layer``.

        """
        if self._runtime_state is None:
            raise RuntimeError(f"{type(self).__name__} belongs to no engine yet: call engine.add_layer first")
        return self._runtime_state

    def initialize(self, runtime_state: ReadOnlyRuntimeStateWrapper, command_channel: CommandChannel) -> None:
        """Take the state and the channel of the engine."""
        self._runtime_state = runtime_state
        self.command_channel = command_channel

    def on_graph_start(self) -> None:
        """Called before the first event."""

    def on_event(self, event: EngineEvent) -> None:
        """Called for each event, before the program gets it."""

    def on_graph_end(self, error: Exception | None) -> None:
        """Called after the last event."""

    def on_node_run_start(self, node: Node[Any]) -> None:
        """Called when the start of a node is known. The node may be further by then."""

    def on_node_run_end(self, node: Node[Any], error: Exception | None, result_event: NodeEvent | None = None) -> None:
        """Called when the end of a node is known."""

    def node_run_context(
        self, node: Node[Any], *, parent_execution_id: str | None = None
    ) -> AbstractContextManager[None]:
        """Not called: nodes are not executed in this interpreter."""
        del node, parent_execution_id
        return nullcontext()
