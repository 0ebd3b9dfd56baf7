"""Assigner nodes, version 2."""

from ...kinds import VariableAssignerNode

__all__ = ["VariableAssignerNode"]
