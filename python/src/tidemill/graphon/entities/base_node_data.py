"""The ``data`` of a node: what all types have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..enums import ErrorStrategy, NodeType


class RetryConfig(BaseModel):
    """The retries of a node."""

    max_retries: int = 0
    retry_interval: int = 0
    """Milliseconds between two attempts."""
    retry_enabled: bool = False

    @property
    def retry_interval_seconds(self) -> float:
        """Seconds between two attempts."""
        return self.retry_interval / 1000


class DefaultValue(BaseModel):
    """An output that a failed node has instead of its own."""

    value: Any = None
    type: str
    key: str


class BaseNodeData(BaseModel):
    """The ``data`` of a node. The engine checks the fields of a type; here they are only kept."""

    model_config = ConfigDict(extra="allow")

    type: NodeType = ""
    title: str = ""
    desc: str | None = None
    version: str = "1"
    error_strategy: ErrorStrategy | None = None
    default_value: list[DefaultValue] | None = None
    retry_config: RetryConfig = Field(default_factory=RetryConfig)
