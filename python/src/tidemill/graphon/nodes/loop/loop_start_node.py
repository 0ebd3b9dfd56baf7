"""Nodes of the type loop, under graphon's path."""

from ..kinds import LoopStartNode

__all__ = ["LoopStartNode"]
