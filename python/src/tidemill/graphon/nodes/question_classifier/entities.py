"""The data of nodes of the type question classifier, under graphon's path."""

from ..kinds import QuestionClassifierNodeData

__all__ = ["QuestionClassifierNodeData"]
