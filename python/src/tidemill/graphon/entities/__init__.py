"""Small models that events and nodes share."""

from .base_node_data import BaseNodeData, DefaultValue, RetryConfig
from .pause_reason import HitlRequired, PauseReason, PauseReasonType, SchedulingPause
from .workflow_start_reason import WorkflowStartReason

__all__ = [
    "BaseNodeData",
    "DefaultValue",
    "HitlRequired",
    "PauseReason",
    "PauseReasonType",
    "RetryConfig",
    "SchedulingPause",
    "WorkflowStartReason",
]
