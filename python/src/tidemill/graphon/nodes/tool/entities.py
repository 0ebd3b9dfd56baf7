"""The data of nodes of the type tool, under graphon's path."""

from ..kinds import ToolNodeData

__all__ = ["ToolNodeData"]
