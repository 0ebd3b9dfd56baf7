"""Nodes of the type llm, under graphon's path."""

from ..kinds import LLMNode

__all__ = ["LLMNode"]
