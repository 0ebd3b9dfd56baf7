"""The engine: runs a graph and yields its events."""

from .engine import Engine

__all__ = ["Engine"]
