"""Nodes of the type start, under graphon's path."""

from ..data import StartNodeData
from ..kinds import StartNode

__all__ = ["StartNode", "StartNodeData"]
