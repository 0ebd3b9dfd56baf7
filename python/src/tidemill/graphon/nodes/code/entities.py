"""The data of nodes of the type code, under graphon's path."""

from ..kinds import CodeNodeData

__all__ = ["CodeNodeData"]
