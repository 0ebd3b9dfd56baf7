"""The roles of a prompt's messages."""

from __future__ import annotations

from ..._strenum import StrEnum


class PromptMessageRole(StrEnum):
    """The role of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
