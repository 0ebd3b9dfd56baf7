"""Assigner nodes, version 1, under graphon's path."""

from ...kinds import VariableAssignerNode

__all__ = ["VariableAssignerNode"]
