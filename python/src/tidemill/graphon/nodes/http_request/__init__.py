"""Nodes of the type http request, under graphon's path."""

from ..kinds import HttpRequestNode, HttpRequestNodeData
from ..parts import HttpRequestNodeDependencies

__all__ = ["HttpRequestNode", "HttpRequestNodeData", "HttpRequestNodeDependencies"]
