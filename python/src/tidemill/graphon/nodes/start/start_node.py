"""Nodes of the type start, under graphon's path."""

from ..kinds import StartNode

__all__ = ["StartNode"]
