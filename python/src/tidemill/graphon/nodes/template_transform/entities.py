"""The data of nodes of the type template transform, under graphon's path."""

from ..data import TemplateTransformNodeData

__all__ = ["TemplateTransformNodeData"]
