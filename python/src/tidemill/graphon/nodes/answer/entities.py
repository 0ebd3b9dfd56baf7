"""The data of nodes of the type answer, under graphon's path."""

from ..data import AnswerNodeData

__all__ = ["AnswerNodeData"]
