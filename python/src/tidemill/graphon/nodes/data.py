"""The data of the node types that programs write as Python objects. All fields of a type are kept, also others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..entities.base_node_data import BaseNodeData
from ..enums import BuiltinNodeTypes, NodeType
from ..model_runtime.entities.llm_entities import LLMMode
from ..model_runtime.entities.message_entities import PromptMessageRole
from .base.entities import OutputVariableEntity, VariableSelector


class StartNodeData(BaseNodeData):
    """The data of a start node."""

    type: NodeType = BuiltinNodeTypes.START
    variables: Sequence[Any] = Field(default_factory=list)


class EndNodeData(BaseNodeData):
    """The data of an end node."""

    type: NodeType = BuiltinNodeTypes.END
    outputs: list[OutputVariableEntity]


class AnswerNodeData(BaseNodeData):
    """The data of an answer node."""

    type: NodeType = BuiltinNodeTypes.ANSWER
    answer: str


class TemplateTransformNodeData(BaseNodeData):
    """The data of a template node."""

    type: NodeType = BuiltinNodeTypes.TEMPLATE_TRANSFORM
    variables: list[VariableSelector] = Field(default_factory=list)
    template: str


class ModelConfig(BaseModel):
    """The model of a node."""

    provider: str
    name: str
    mode: LLMMode = LLMMode.CHAT
    completion_params: dict[str, Any] = Field(default_factory=dict)


class ContextConfig(BaseModel):
    """The context of a prompt."""

    enabled: bool = False
    variable_selector: list[str] | None = None


class VisionConfig(BaseModel):
    """Whether a model gets images."""

    model_config = ConfigDict(extra="allow")

    enabled: bool = False


class LLMNodeChatModelMessage(BaseModel):
    """A message of a prompt."""

    model_config = ConfigDict(extra="allow")

    role: PromptMessageRole
    text: str = ""
    edition_type: str | None = None


class LLMNodeCompletionModelPromptTemplate(BaseModel):
    """The prompt of a completion model."""

    model_config = ConfigDict(extra="allow")

    text: str
    edition_type: str | None = None


class LLMNodeData(BaseNodeData):
    """The data of an LLM node."""

    type: NodeType = BuiltinNodeTypes.LLM
    model: ModelConfig
    prompt_template: Sequence[LLMNodeChatModelMessage] | LLMNodeCompletionModelPromptTemplate
    context: ContextConfig = Field(default_factory=ContextConfig)
    vision: VisionConfig = Field(default_factory=VisionConfig)
