"""The built-in node types. Tidemill executes them; these classes only describe nodes of a graph."""

from .base.node import Node

__all__ = ["Node"]
