"""The models that the methods of a Call use: what they get, and what they yield."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "CallIds",
    "CallInfo",
    "CallOutputChunk",
    "CallOutputType",
    "CallVars",
    "DataBase",
    "LanguageType",
    "NodeInfo",
]


class LanguageType(str, Enum):
    """The language of texts for people."""

    CHINESE = "zh"
    ENGLISH = "en"


class CallOutputType(str, Enum):
    """The kind of a piece."""

    TEXT = "text"
    DATA = "data"


class CallOutputChunk(BaseModel):
    """A piece of what a Call yields. Texts are joined; an object replaces everything before it."""

    type: CallOutputType
    content: str | dict[str, Any]


class DataBase(BaseModel):
    """The base of the models of inputs and outputs."""

    @classmethod
    def model_json_schema(  # type: ignore[override]
        cls, override: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Returns the JSON schema; properties in `override` replace those of the model."""
        schema = super().model_json_schema(**options)
        if override:
            schema["properties"] = {**schema.get("properties", {}), **override}
        return schema


class CallInfo(BaseModel):
    """Name and description of a Call in one language."""

    model_config = ConfigDict(extra="allow")

    name: str
    description: str


class NodeInfo(BaseModel):
    """The node that makes a Call."""

    id: str
    name: str = ""
    callId: str = ""


class CallIds(BaseModel):
    """The ids of the place where a Call is made; the run is the task."""

    model_config = ConfigDict(extra="allow")

    task_id: str = ""
    executor_id: str = ""
    execution_id: str = ""
    step_id: str = ""
    session_id: str = ""
    app_id: str = ""
    user: str = ""


class CallVars(BaseModel):
    """What a Call gets from the run: ids, the question, and the records of earlier steps."""

    model_config = ConfigDict(extra="allow")

    ids: CallIds = Field(default_factory=CallIds)
    question: str = ""
    summary: str = ""
    history: list[dict[str, Any]] = Field(default_factory=list)
    #: The nodes of `history`, in its order.
    history_order: list[Any] = Field(default_factory=list)
    language: LanguageType = LanguageType.CHINESE
