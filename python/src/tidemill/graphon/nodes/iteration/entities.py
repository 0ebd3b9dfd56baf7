"""The data of nodes of the type iteration, under graphon's path."""

from ..kinds import IterationNodeData, IterationStartNodeData

__all__ = ["IterationNodeData", "IterationStartNodeData"]
