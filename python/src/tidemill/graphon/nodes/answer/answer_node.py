"""Nodes of the type answer, under graphon's path."""

from ..kinds import AnswerNode

__all__ = ["AnswerNode"]
