"""The data of nodes of the type variable aggregator, under graphon's path."""

from ..kinds import VariableAggregatorNodeData

__all__ = ["VariableAggregatorNodeData"]
