"""Nodes of the type loop, under graphon's path."""

from ..kinds import LoopEndNode

__all__ = ["LoopEndNode"]
