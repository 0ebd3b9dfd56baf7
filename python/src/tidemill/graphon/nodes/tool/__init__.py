"""Nodes of the type tool, under graphon's path."""

from ..kinds import ToolNode, ToolNodeData

__all__ = ["ToolNode", "ToolNodeData"]
