"""Assigner nodes, version 2, under graphon's path."""

from ...kinds import VariableAssignerNode

__all__ = ["VariableAssignerNode"]
