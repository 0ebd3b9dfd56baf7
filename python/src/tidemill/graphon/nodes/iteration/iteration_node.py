"""Nodes of the type iteration, under graphon's path."""

from ..kinds import IterationNode

__all__ = ["IterationNode"]
