"""Nodes of the type document extractor, under graphon's path."""

from ..kinds import DocumentExtractorNode

__all__ = ["DocumentExtractorNode"]
