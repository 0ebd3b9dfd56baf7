"""Nodes of the type question classifier, under graphon's path."""

from ..kinds import QuestionClassifierNode, QuestionClassifierNodeData
from ..parts import QuestionClassifierNodeDependencies

__all__ = ["QuestionClassifierNode", "QuestionClassifierNodeData", "QuestionClassifierNodeDependencies"]
