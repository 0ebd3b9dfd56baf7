"""The limits of code nodes, under graphon's path."""

from ..parts import CodeNodeLimits

__all__ = ["CodeNodeLimits"]
