"""Nodes of the type code, under graphon's path."""

from ..kinds import CodeNode, CodeNodeData

__all__ = ["CodeNode", "CodeNodeData"]
