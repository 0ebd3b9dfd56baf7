"""Nodes of the type parameter extractor, under graphon's path."""

from ..kinds import ParameterExtractorNode

__all__ = ["ParameterExtractorNode"]
