"""Workflow files of Dify: read one, and get an engine that runs it."""

from .entities import (
    DslDocument,
    DslImportPlan,
    DslKind,
    DslRuntimeVariable,
    DslRuntimeVariables,
    LoadStatus,
)
from .errors import DslError
from .importer import inspect, loads

__all__ = [
    "DslDocument",
    "DslError",
    "DslImportPlan",
    "DslKind",
    "DslRuntimeVariable",
    "DslRuntimeVariables",
    "LoadStatus",
    "inspect",
    "loads",
]
