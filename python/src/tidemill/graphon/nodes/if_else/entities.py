"""The data of nodes of the type if else, under graphon's path."""

from ..kinds import IfElseNodeData

__all__ = ["IfElseNodeData"]
