"""Nodes of the type list operator, under graphon's path."""

from ..kinds import ListOperatorNode

__all__ = ["ListOperatorNode"]
