"""Nodes of the type answer, under graphon's path."""

from ..data import AnswerNodeData
from ..kinds import AnswerNode

__all__ = ["AnswerNode", "AnswerNodeData"]
