"""The names under which programs know a state that they only read."""

from __future__ import annotations

from .read_only_wrappers import ReadOnlyRuntimeStateWrapper as ReadOnlyRuntimeState
from .read_only_wrappers import ReadOnlyVariablePoolWrapper as ReadOnlyVariablePool

__all__ = ["ReadOnlyRuntimeState", "ReadOnlyVariablePool"]
