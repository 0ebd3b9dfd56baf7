"""The data of nodes of the type http request, under graphon's path."""

from ..kinds import HttpRequestNodeData

__all__ = ["HttpRequestNodeData"]
