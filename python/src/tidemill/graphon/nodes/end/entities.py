"""The data of nodes of the type end, under graphon's path."""

from ..data import EndNodeData

__all__ = ["EndNodeData"]
