"""Nodes of the type tool, under graphon's path."""

from ..kinds import ToolNode

__all__ = ["ToolNode"]
