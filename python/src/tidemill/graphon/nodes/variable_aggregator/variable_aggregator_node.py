"""Nodes of the type variable aggregator, under graphon's path."""

from ..kinds import VariableAggregatorNode

__all__ = ["VariableAggregatorNode"]
