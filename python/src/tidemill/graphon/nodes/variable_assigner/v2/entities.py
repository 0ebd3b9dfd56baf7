"""Assigner nodes, version 2, under graphon's path."""

from ...kinds import VariableAssignerNodeData

__all__ = ["VariableAssignerNodeData"]
