"""Nodes of the type code, under graphon's path."""

from ..kinds import CodeNode

__all__ = ["CodeNode"]
