"""Nodes of the type iteration, under graphon's path."""

from ..kinds import IterationNode, IterationNodeData, IterationStartNode, IterationStartNodeData

__all__ = ["IterationNode", "IterationNodeData", "IterationStartNode", "IterationStartNodeData"]
