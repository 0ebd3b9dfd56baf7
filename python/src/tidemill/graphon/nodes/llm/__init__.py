"""Nodes of the type llm, under graphon's path."""

from ..data import (
    ContextConfig,
    LLMNodeChatModelMessage,
    LLMNodeCompletionModelPromptTemplate,
    LLMNodeData,
    ModelConfig,
    VisionConfig,
)
from ..kinds import LLMNode

__all__ = [
    "ContextConfig",
    "LLMNode",
    "LLMNodeChatModelMessage",
    "LLMNodeCompletionModelPromptTemplate",
    "LLMNodeData",
    "ModelConfig",
    "VisionConfig",
]
