"""An edge of a graph."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from ..enums import NodeState


@dataclass
class Edge:
    """An edge from ``tail`` to ``head``."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    tail: str = ""
    head: str = ""
    source_handle: str = "source"
    state: NodeState = NodeState.UNKNOWN
