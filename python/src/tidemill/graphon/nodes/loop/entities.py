"""The data of nodes of the type loop, under graphon's path."""

from ..kinds import LoopEndNodeData, LoopNodeData, LoopStartNodeData

__all__ = ["LoopEndNodeData", "LoopNodeData", "LoopStartNodeData"]
