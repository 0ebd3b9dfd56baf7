"""Nodes of the type loop, under graphon's path."""

from ..kinds import LoopEndNode, LoopEndNodeData, LoopNode, LoopNodeData, LoopStartNode, LoopStartNodeData

__all__ = ["LoopEndNode", "LoopEndNodeData", "LoopNode", "LoopNodeData", "LoopStartNode", "LoopStartNodeData"]
