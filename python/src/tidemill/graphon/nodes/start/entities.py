"""The data of nodes of the type start, under graphon's path."""

from ..data import StartNodeData

__all__ = ["StartNodeData"]
