"""Models of model calls: their usage."""

from .llm_entities import LLMMode, LLMUsage
from .message_entities import PromptMessageRole

__all__ = ["LLMMode", "LLMUsage", "PromptMessageRole"]
