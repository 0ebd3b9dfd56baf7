"""The events of a run, by their class names."""

from .agent import NodeRunAgentLogEvent
from .base import EngineEvent, NodeEvent
from .graph import (
    GraphRunAbortedEvent,
    GraphRunFailedEvent,
    GraphRunPartialSucceededEvent,
    GraphRunPausedEvent,
    GraphRunStartedEvent,
    GraphRunSucceededEvent,
)
from .iteration import (
    NodeRunIterationFailedEvent,
    NodeRunIterationNextEvent,
    NodeRunIterationStartedEvent,
    NodeRunIterationSucceededEvent,
)
from .loop import (
    NodeRunLoopFailedEvent,
    NodeRunLoopNextEvent,
    NodeRunLoopStartedEvent,
    NodeRunLoopSucceededEvent,
)
from .node import (
    NodeRunExceptionEvent,
    NodeRunFailedEvent,
    NodeRunHumanInputFormFilledEvent,
    NodeRunHumanInputFormTimeoutEvent,
    NodeRunModelPollingProgressEvent,
    NodeRunPauseRequestedEvent,
    NodeRunReasoningChunkEvent,
    NodeRunRetrieverResourceEvent,
    NodeRunRetryEvent,
    NodeRunStartedEvent,
    NodeRunStreamChunkEvent,
    NodeRunSucceededEvent,
    NodeRunVariableUpdatedEvent,
    is_node_result_event,
)
from .traversal import GraphEdgeSkippedEvent, GraphEdgeTakenEvent

__all__ = [
    "EngineEvent",
    "GraphEdgeSkippedEvent",
    "GraphEdgeTakenEvent",
    "GraphRunAbortedEvent",
    "GraphRunFailedEvent",
    "GraphRunPartialSucceededEvent",
    "GraphRunPausedEvent",
    "GraphRunStartedEvent",
    "GraphRunSucceededEvent",
    "NodeEvent",
    "NodeRunAgentLogEvent",
    "NodeRunExceptionEvent",
    "NodeRunFailedEvent",
    "NodeRunHumanInputFormFilledEvent",
    "NodeRunHumanInputFormTimeoutEvent",
    "NodeRunIterationFailedEvent",
    "NodeRunIterationNextEvent",
    "NodeRunIterationStartedEvent",
    "NodeRunIterationSucceededEvent",
    "NodeRunLoopFailedEvent",
    "NodeRunLoopNextEvent",
    "NodeRunLoopStartedEvent",
    "NodeRunLoopSucceededEvent",
    "NodeRunModelPollingProgressEvent",
    "NodeRunPauseRequestedEvent",
    "NodeRunReasoningChunkEvent",
    "NodeRunRetrieverResourceEvent",
    "NodeRunRetryEvent",
    "NodeRunStartedEvent",
    "NodeRunStreamChunkEvent",
    "NodeRunSucceededEvent",
    "NodeRunVariableUpdatedEvent",
    "is_node_result_event",
]
