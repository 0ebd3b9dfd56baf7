"""The data of nodes of the type llm, under graphon's path."""

from ..data import (
    ContextConfig,
    LLMNodeChatModelMessage,
    LLMNodeCompletionModelPromptTemplate,
    LLMNodeData,
    ModelConfig,
    VisionConfig,
)

__all__ = [
    "ContextConfig",
    "LLMNodeChatModelMessage",
    "LLMNodeCompletionModelPromptTemplate",
    "LLMNodeData",
    "ModelConfig",
    "VisionConfig",
]
