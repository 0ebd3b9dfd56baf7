"""Nodes of the type if else, under graphon's path."""

from ..kinds import IfElseNode, IfElseNodeData

__all__ = ["IfElseNode", "IfElseNodeData"]
