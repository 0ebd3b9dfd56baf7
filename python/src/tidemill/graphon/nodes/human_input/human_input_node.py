"""Nodes of the type human input, under graphon's path."""

from ..kinds import HumanInputNode

__all__ = ["HumanInputNode"]
