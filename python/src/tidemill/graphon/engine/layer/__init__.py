"""Layers: objects that see the events of a run and may send commands."""

from .base import Layer
from .builtin.debug_logging import DebugLoggingLayer
from .builtin.execution_limits import ExecutionLimitsLayer

__all__ = ["DebugLoggingLayer", "ExecutionLimitsLayer", "Layer"]
