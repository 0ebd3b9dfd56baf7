"""Nodes of the type variable aggregator, under graphon's path."""

from ..kinds import VariableAggregatorNode, VariableAggregatorNodeData

__all__ = ["VariableAggregatorNode", "VariableAggregatorNodeData"]
