"""The base of all nodes. A node describes what the engine executes; it executes nothing itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from ...entities.base_node_data import BaseNodeData, RetryConfig
from ...enums import NodeExecutionType, NodeState, NodeType
from ...errors import GraphonDifference
from ...runtime.init_params import InitParams
from ...runtime.runtime_state import RuntimeState

DataT = TypeVar("DataT", bound=BaseNodeData)


class Node(Generic[DataT]):
    """A node of a graph.

    Objects that graphon's nodes call (``code_executor``, ``model_instance``, ``http_client`` and others) are taken,
    and a :class:`GraphonDifference` warning says once for each that Tidemill's own part is used instead.
    """

    node_type: ClassVar[NodeType] = ""
    execution_type: NodeExecutionType = NodeExecutionType.EXECUTABLE
    data_class: ClassVar[type[BaseNodeData]] = BaseNodeData
    is_built_in: ClassVar[bool] = False
    used_parts: ClassVar[frozenset[str]] = frozenset()
    """The objects that are used."""

    def __init__(
        self,
        node_id: str,
        data: DataT | Mapping[str, Any],
        *,
        init_params: InitParams,
        runtime_state: RuntimeState,
        **parts: Any,
    ) -> None:
        if not node_id:
            raise ValueError("node_id is empty: a node needs an id")
        self.id = node_id
        self.node_data: DataT = self.validate_node_data(data)
        self.init_params = init_params
        self.runtime_state = runtime_state
        self.workflow_id = init_params.workflow_id
        self.graph_config = init_params.graph_config
        self.run_context = init_params.run_context
        self.state = NodeState.UNKNOWN
        self.execution_id = ""
        self.parts = {name: part for name, part in parts.items() if name in self.used_parts}
        for name in sorted(parts.keys() - self.used_parts):
            warnings.warn(
                f"{type(self).__name__}: {name} is not called; Tidemill executes {self.node_type} nodes itself",
                GraphonDifference,
                stacklevel=2,
            )

    @classmethod
    def validate_node_data(cls, data: Any) -> DataT:
        """Return the data as this type's class.

        Raises:
            ValueError: for a field with a wrong value.

        """
        values = data.model_dump(exclude_unset=True) if isinstance(data, BaseNodeData) else dict(data)
        values.setdefault("type", cls.node_type)
        return cast(DataT, cls.data_class.model_validate(values))

    @classmethod
    def version(cls) -> str:
        """Return the version of the node type."""
        return "1"

    @property
    def title(self) -> str:
        """The node's title."""
        return self.node_data.title

    @property
    def description(self) -> str | None:
        """The node's description."""
        return self.node_data.desc

    @property
    def retry_config(self) -> RetryConfig:
        """The node's retries."""
        return self.node_data.retry_config

    @property
    def retry(self) -> bool:
        """True if a failed attempt is tried again."""
        return self.node_data.retry_config.retry_enabled

    def config(self) -> dict[str, Any]:
        """Return the node as a graph's configuration has it."""
        return {"id": self.id, "data": self.node_data.model_dump(mode="json", exclude_unset=True)}
