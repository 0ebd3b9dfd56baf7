"""The result of a node, as its events have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ..enums import WorkflowNodeExecutionStatus
from ..model_runtime.entities.llm_entities import LLMUsage


class NodeRunResult(BaseModel):
    """The result of one execution of a node."""

    status: WorkflowNodeExecutionStatus = WorkflowNodeExecutionStatus.PENDING
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    process_data: Mapping[str, Any] = Field(default_factory=dict)
    outputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    llm_usage: LLMUsage = Field(default_factory=LLMUsage.empty_usage)
    edge_source_handle: str = "source"
    error: str = ""
    error_type: str = ""
    retry_index: int = 0
