"""The messages of a prompt, for programs that name their types. Tidemill makes the prompts itself."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ..._strenum import StrEnum


class PromptMessageRole(StrEnum):
    """The role of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class PromptMessage(BaseModel):
    """A message."""

    role: PromptMessageRole
    content: Any = None
    name: str | None = None


class SystemPromptMessage(PromptMessage):
    """A message of the system."""

    role: PromptMessageRole = PromptMessageRole.SYSTEM


class UserPromptMessage(PromptMessage):
    """A message of the user."""

    role: PromptMessageRole = PromptMessageRole.USER


class AssistantPromptMessage(PromptMessage):
    """A message of the model."""

    role: PromptMessageRole = PromptMessageRole.ASSISTANT
