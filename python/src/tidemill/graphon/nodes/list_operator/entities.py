"""The data of nodes of the type list operator, under graphon's path."""

from ..kinds import ListOperatorNodeData

__all__ = ["ListOperatorNodeData"]
