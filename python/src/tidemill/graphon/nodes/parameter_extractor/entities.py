"""The data of nodes of the type parameter extractor, under graphon's path."""

from ..kinds import ParameterExtractorNodeData

__all__ = ["ParameterExtractorNodeData"]
