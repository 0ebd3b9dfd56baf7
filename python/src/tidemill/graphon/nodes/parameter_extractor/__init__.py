"""Nodes of the type parameter extractor, under graphon's path."""

from ..kinds import ParameterExtractorNode, ParameterExtractorNodeData

__all__ = ["ParameterExtractorNode", "ParameterExtractorNodeData"]
