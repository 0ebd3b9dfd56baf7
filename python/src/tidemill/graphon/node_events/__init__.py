"""The result of a node."""

from .base import NodeRunResult

__all__ = ["NodeRunResult"]
