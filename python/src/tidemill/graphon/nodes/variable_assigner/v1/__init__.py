"""Assigner nodes, version 1."""

from ...kinds import VariableAssignerNode

__all__ = ["VariableAssignerNode"]
