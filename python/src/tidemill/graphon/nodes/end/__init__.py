"""Nodes of the type end, under graphon's path."""

from ..data import EndNodeData
from ..kinds import EndNode

__all__ = ["EndNode", "EndNodeData"]
