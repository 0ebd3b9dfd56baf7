"""Nodes of the type list operator, under graphon's path."""

from ..kinds import ListOperatorNode, ListOperatorNodeData

__all__ = ["ListOperatorNode", "ListOperatorNodeData"]
