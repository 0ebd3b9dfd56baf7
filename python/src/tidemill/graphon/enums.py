"""The words of a run (types of nodes, statuses, strategies) as the enums that programs of graphon compare with."""

from __future__ import annotations

from typing import ClassVar

from ._strenum import StrEnum

NodeType = str
"""The type of a node, as in workflow files."""


class NodeState(StrEnum):
    """What became of a node or an edge."""

    UNKNOWN = "unknown"
    TAKEN = "taken"
    SKIPPED = "skipped"


class BuiltinNodeTypes:
    """The names of the node types."""

    START: ClassVar[NodeType] = "start"
    END: ClassVar[NodeType] = "end"
    ANSWER: ClassVar[NodeType] = "answer"
    LLM: ClassVar[NodeType] = "llm"
    KNOWLEDGE_RETRIEVAL: ClassVar[NodeType] = "knowledge-retrieval"
    IF_ELSE: ClassVar[NodeType] = "if-else"
    CODE: ClassVar[NodeType] = "code"
    TEMPLATE_TRANSFORM: ClassVar[NodeType] = "template-transform"
    QUESTION_CLASSIFIER: ClassVar[NodeType] = "question-classifier"
    HTTP_REQUEST: ClassVar[NodeType] = "http-request"
    TOOL: ClassVar[NodeType] = "tool"
    DATASOURCE: ClassVar[NodeType] = "datasource"
    VARIABLE_AGGREGATOR: ClassVar[NodeType] = "variable-aggregator"
    LEGACY_VARIABLE_AGGREGATOR: ClassVar[NodeType] = "variable-assigner"
    LOOP: ClassVar[NodeType] = "loop"
    LOOP_START: ClassVar[NodeType] = "loop-start"
    LOOP_END: ClassVar[NodeType] = "loop-end"
    ITERATION: ClassVar[NodeType] = "iteration"
    ITERATION_START: ClassVar[NodeType] = "iteration-start"
    PARAMETER_EXTRACTOR: ClassVar[NodeType] = "parameter-extractor"
    VARIABLE_ASSIGNER: ClassVar[NodeType] = "assigner"
    DOCUMENT_EXTRACTOR: ClassVar[NodeType] = "document-extractor"
    LIST_OPERATOR: ClassVar[NodeType] = "list-operator"
    AGENT: ClassVar[NodeType] = "agent"
    HUMAN_INPUT: ClassVar[NodeType] = "human-input"


BUILT_IN_NODE_TYPES: tuple[NodeType, ...] = tuple(
    value for name, value in vars(BuiltinNodeTypes).items() if name.isupper()
)


class NodeExecutionType(StrEnum):
    """How the engine treats a node."""

    EXECUTABLE = "executable"
    RESPONSE = "response"
    BRANCH = "branch"
    CONTAINER = "container"
    ROOT = "root"


class ErrorStrategy(StrEnum):
    """What follows when a node fails."""

    FAIL_BRANCH = "fail-branch"
    DEFAULT_VALUE = "default-value"


class ErrorHandleMode(StrEnum):
    """What an iteration does when an item fails."""

    TERMINATED = "terminated"
    CONTINUE_ON_ERROR = "continue-on-error"
    REMOVE_ABNORMAL_OUTPUT = "remove-abnormal-output"


class FailBranchSourceHandle(StrEnum):
    """The handles of a node with a fail branch."""

    FAILED = "fail-branch"
    SUCCESS = "success-branch"


class WorkflowType(StrEnum):
    """The kind of a workflow."""

    WORKFLOW = "workflow"
    CHAT = "chat"
    RAG_PIPELINE = "rag-pipeline"


class WorkflowExecutionStatus(StrEnum):
    """The status of a run."""

    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    PARTIAL_SUCCEEDED = "partial-succeeded"
    PAUSED = "paused"

    def is_ended(self) -> bool:
        """Return true if the run does not go on."""
        return self in _ENDED

    @classmethod
    def ended_values(cls) -> list[str]:
        """Return the names of the statuses in which a run has ended."""
        return [status.value for status in _ENDED]


_ENDED = (
    WorkflowExecutionStatus.SUCCEEDED,
    WorkflowExecutionStatus.FAILED,
    WorkflowExecutionStatus.PARTIAL_SUCCEEDED,
    WorkflowExecutionStatus.STOPPED,
)


class WorkflowNodeExecutionStatus(StrEnum):
    """The status of one execution of a node."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXCEPTION = "exception"
    STOPPED = "stopped"
    PAUSED = "paused"
    RETRY = "retry"


class WorkflowNodeExecutionMetadataKey(StrEnum):
    """The keys of a node's metadata."""

    TOTAL_TOKENS = "total_tokens"
    TOTAL_PRICE = "total_price"
    CURRENCY = "currency"
    TOOL_INFO = "tool_info"
    AGENT_LOG = "agent_log"
    ITERATION_ID = "iteration_id"
    ITERATION_INDEX = "iteration_index"
    LOOP_ID = "loop_id"
    LOOP_INDEX = "loop_index"
    PARALLEL_ID = "parallel_id"
    PARALLEL_START_NODE_ID = "parallel_start_node_id"
    PARENT_PARALLEL_ID = "parent_parallel_id"
    PARENT_PARALLEL_START_NODE_ID = "parent_parallel_start_node_id"
    PARALLEL_MODE_RUN_ID = "parallel_mode_run_id"
    ITERATION_DURATION_MAP = "iteration_duration_map"
    LOOP_DURATION_MAP = "loop_duration_map"
    ERROR_STRATEGY = "error_strategy"
    LOOP_VARIABLE_MAP = "loop_variable_map"
    DATASOURCE_INFO = "datasource_info"
    TRIGGER_INFO = "trigger_info"
    COMPLETED_REASON = "completed_reason"
