"""Nodes of the type template transform, under graphon's path."""

from ..data import TemplateTransformNodeData
from ..kinds import TemplateTransformNode

__all__ = ["TemplateTransformNode", "TemplateTransformNodeData"]
