"""Nodes of the type template transform, under graphon's path."""

from ..kinds import TemplateTransformNode

__all__ = ["TemplateTransformNode"]
