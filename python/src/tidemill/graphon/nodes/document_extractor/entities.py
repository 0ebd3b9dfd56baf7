"""The data of nodes of the type document extractor, under graphon's path."""

from ..kinds import DocumentExtractorNodeData

__all__ = ["DocumentExtractorNodeData"]
