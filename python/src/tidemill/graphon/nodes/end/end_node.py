"""Nodes of the type end, under graphon's path."""

from ..kinds import EndNode

__all__ = ["EndNode"]
