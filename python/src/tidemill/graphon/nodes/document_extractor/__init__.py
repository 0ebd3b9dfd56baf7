"""Nodes of the type document extractor, under graphon's path."""

from ..kinds import DocumentExtractorNode, DocumentExtractorNodeData

__all__ = ["DocumentExtractorNode", "DocumentExtractorNodeData"]
