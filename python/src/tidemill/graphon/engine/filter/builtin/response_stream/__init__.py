"""The texts of answers and outputs, in their order."""

from .filter import ResponseStreamFilter

__all__ = ["ResponseStreamFilter"]
