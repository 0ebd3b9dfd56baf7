"""Nodes of the type loop, under graphon's path."""

from ..kinds import LoopNode

__all__ = ["LoopNode"]
