"""The result of reading a workflow file: what it contains, and whether it can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from .._strenum import StrEnum


class DslKind(StrEnum):
    """The kind of a file."""

    APP = "app"
    RAG_PIPELINE = "rag_pipeline"
    GRAPH = "graph"


class LoadStatus(StrEnum):
    """Whether a file can be run."""

    LOADABLE = "loadable"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


class DslRuntimeVariable(BaseModel):
    """A variable that a file declares."""

    name: str
    value: Any = None
    source: Mapping[str, Any] = Field(default_factory=dict)


class DslRuntimeVariables(BaseModel):
    """The variables that a file declares."""

    environment_variables: list[DslRuntimeVariable] = Field(default_factory=list)
    conversation_variables: list[DslRuntimeVariable] = Field(default_factory=list)


class DslDocument(BaseModel):
    """The graph of a file, and its variables."""

    kind: DslKind
    graph_config: Mapping[str, Any] | None = None
    runtime_variables: DslRuntimeVariables = Field(default_factory=DslRuntimeVariables)


class DslImportPlan(BaseModel):
    """What is read from a file, and whether it can be run."""

    document: DslDocument
    load_status: LoadStatus
    dependencies: list[Mapping[str, Any]] = Field(default_factory=list)
    load_reason: str | None = None

    @property
    def loadable(self) -> bool:
        """True if the file can be run."""
        return self.load_status is LoadStatus.LOADABLE


class DslModelCredential(BaseModel):
    """The credentials of a model provider."""

    provider: str | None = None
    vendor: str | None = None
    plugin_unique_identifier: str | None = None
    values: Mapping[str, Any] = Field(default_factory=dict)


class DslCredentials(BaseModel):
    """The credentials of a file. Those of models are used."""

    model_credentials: list[DslModelCredential] = Field(default_factory=list)
    tool_credentials: list[Mapping[str, Any]] = Field(default_factory=list)
    slim: Mapping[str, Any] = Field(default_factory=dict)
    code: Mapping[str, Any] = Field(default_factory=dict)
