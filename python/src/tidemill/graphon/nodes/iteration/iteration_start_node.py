"""Nodes of the type iteration, under graphon's path."""

from ..kinds import IterationStartNode

__all__ = ["IterationStartNode"]
