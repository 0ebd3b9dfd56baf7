"""What a program decides about a form, under graphon's path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...runtime.runtime_state_protocol import ReadOnlyVariablePool
from ...variables.segments import Segment
from ..kinds import HumanInputNodeData


@dataclass(frozen=True)
class HITLContext:
    """A form that waits."""

    workflow_execution_id: str
    node_id: str
    node_title: str
    variable_pool: ReadOnlyVariablePool


@dataclass(frozen=True)
class PauseRequested:
    """The form waits on."""

    session_id: str


@dataclass(frozen=True)
class Completed:
    """The form was answered."""

    selected_handle: str
    inputs: Mapping[str, Segment]
    outputs: Mapping[str, Segment]


@dataclass(frozen=True)
class Expired:
    """The form is too old."""

    selected_handle: str
    outputs: Mapping[str, Segment]


HITLDecision = PauseRequested | Completed | Expired
HITLCallback = Callable[[HITLContext], HITLDecision]

__all__ = [
    "Completed",
    "Expired",
    "HITLCallback",
    "HITLContext",
    "HITLDecision",
    "HumanInputNodeData",
    "PauseRequested",
]
