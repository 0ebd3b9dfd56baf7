"""Nodes of the type if else, under graphon's path."""

from ..kinds import IfElseNode

__all__ = ["IfElseNode"]
