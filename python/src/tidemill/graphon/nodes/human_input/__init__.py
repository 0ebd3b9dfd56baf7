"""Nodes of the type human input, under graphon's path."""

from ..kinds import HumanInputNode, HumanInputNodeData

__all__ = ["HumanInputNode", "HumanInputNodeData"]
