"""A node of a graph's configuration, as factories get it."""

from __future__ import annotations

from typing import TypedDict

from .base_node_data import BaseNodeData


class NodeConfigDict(TypedDict):
    """A node: its id and its data."""

    id: str
    data: BaseNodeData
