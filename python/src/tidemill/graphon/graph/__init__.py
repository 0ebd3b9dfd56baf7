"""Graphs: nodes and edges."""

from .edge import Edge
from .graph import Graph, GraphBuilder, NodeFactory

__all__ = ["Edge", "Graph", "GraphBuilder", "NodeFactory"]
