"""Assigner nodes, version 1, under graphon's path."""

from ...kinds import VariableAssignerNodeData as VariableAssignerData

__all__ = ["VariableAssignerData"]
