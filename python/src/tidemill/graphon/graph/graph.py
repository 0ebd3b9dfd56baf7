"""A graph: from a configuration with a factory for its nodes, or built node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..entities.base_node_data import BaseNodeData
from ..entities.graph_config import NodeConfigDict
from ..enums import NodeExecutionType, NodeState
from ..nodes.base.node import Node
from .edge import Edge
from .validation import GraphValidationError, edge_issues, repeated, root_issues, scope_problems

AnyNode = Node[Any]


class NodeFactory(Protocol):
    """Makes the nodes of a graph."""

    def with_graph_config(self, graph_config: Mapping[str, Any]) -> NodeFactory:
        """Return a factory for this configuration."""
        ...

    def validate_node(self, node_config: NodeConfigDict) -> NodeExecutionType:
        """Check a node; return how the engine treats it."""
        ...

    def create_node(self, node_config: NodeConfigDict) -> AnyNode:
        """Make a node."""
        ...


def nodes_of(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the nodes of a configuration, also those inside of containers."""
    found: list[Mapping[str, Any]] = list(config.get("nodes") or ())
    return found


def data_of(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``data`` of a node of a configuration."""
    found: Mapping[str, Any] = node.get("data") or {}
    return found


def container_of(config: Mapping[str, Any]) -> str:
    """Return the id of the iteration or loop around a node; empty outside of them."""
    data = data_of(config)
    return str(config.get("parentId") or data.get("iteration_id") or data.get("loop_id") or "")


class Graph:
    """Nodes and edges, and the node that begins a run."""

    def __init__(
        self,
        *,
        nodes: dict[str, AnyNode] | None = None,
        edges: dict[str, Edge] | None = None,
        in_edges: dict[str, list[str]] | None = None,
        out_edges: dict[str, list[str]] | None = None,
        root_node: AnyNode,
        graph_config: Mapping[str, Any] | None = None,
        node_factory: NodeFactory | None = None,
    ) -> None:
        self.nodes = nodes or {}
        self.edges = edges or {}
        self.in_edges = in_edges or {}
        self.out_edges = out_edges or {}
        self.root_node = root_node
        self.node_factory = node_factory
        self.graph_config: Mapping[str, Any] = graph_config or _config(self.nodes.values(), self.edges.values())

    @classmethod
    def new(cls) -> GraphBuilder:
        """Return a builder."""
        return GraphBuilder(graph_cls=cls)

    @classmethod
    def init(
        cls,
        *,
        graph_config: Mapping[str, Any],
        node_factory: NodeFactory,
        root_node_id: str,
        container_id: str = "",
        skip_validation: bool = False,
    ) -> Graph:
        """Build a graph from ``{"nodes": [...], "edges": [...]}``. Nodes of containers are checked, not made.

        Raises:
            ValueError: if there are no nodes, or not the root.
            GraphValidationError: for edges without an end, circles, and a root that cannot begin a run.

        """
        configs = {str(node["id"]): node for node in nodes_of(graph_config) if "data" in node}
        if not configs:
            raise ValueError("the graph has no nodes")
        all_of = all_edges(graph_config)
        ids = {"node": [str(it["id"]) for it in nodes_of(graph_config)], "edge": [it.id for it in all_of]}
        for what, found in ids.items():
            if repeated(found):
                raise ValueError(f"Duplicate {what} id {repeated(found)[0]!r}")
        if root_node_id not in configs:
            raise ValueError(f"there is no node {root_node_id!r} to begin at")
        factory = node_factory.with_graph_config(graph_config)
        typed = {key: typed_config(node) for key, node in configs.items()}
        kinds = {key: factory.validate_node(node) for key, node in typed.items()}
        owners = {key: container_of(node) for key, node in configs.items()}
        edges = [edge for edge in all_of if owners.get(edge.tail, "") == container_id]
        if not skip_validation:
            issues = edge_issues(configs, all_of) + root_issues(root_node_id, kinds)
            if issues:
                raise GraphValidationError(issues)
            problems = scope_problems(owners, kinds, all_of)
            if problems:
                raise ValueError("; ".join(problems))
        direct = [key for key, owner in owners.items() if owner == container_id]
        nodes = {key: factory.create_node(typed[key]) for key in direct}
        return cls.of(nodes, edges, nodes[root_node_id], graph_config, factory)

    @classmethod
    def of(
        cls,
        nodes: dict[str, AnyNode],
        edges: Sequence[Edge],
        root: AnyNode,
        config: Mapping[str, Any] | None = None,
        factory: NodeFactory | None = None,
    ) -> Graph:
        """Return a graph of these nodes and edges."""
        into: dict[str, list[str]] = {}
        out: dict[str, list[str]] = {}
        for edge in edges:
            out.setdefault(edge.tail, []).append(edge.id)
            into.setdefault(edge.head, []).append(edge.id)
        return cls(
            nodes=nodes,
            edges={edge.id: edge for edge in edges},
            in_edges=into,
            out_edges=out,
            root_node=root,
            graph_config=config,
            node_factory=factory,
        )

    @property
    def node_ids(self) -> list[str]:
        """The ids of all nodes."""
        return list(self.nodes)

    def get_outgoing_edges(self, node_id: str) -> list[Edge]:
        """Return the edges that begin at a node."""
        return [self.edges[key] for key in self.out_edges.get(node_id, [])]

    def get_incoming_edges(self, node_id: str) -> list[Edge]:
        """Return the edges that end at a node."""
        return [self.edges[key] for key in self.in_edges.get(node_id, [])]

    def states(self) -> dict[str, NodeState]:
        """Return what has become of nodes and edges, by their ids."""
        states = {it.id: it.state for it in self.nodes.values()} | {it.id: it.state for it in self.edges.values()}
        return {key: state for key, state in states.items() if state is not NodeState.UNKNOWN}

    def take_states(self, states: Mapping[str, NodeState]) -> None:
        """Take what has become of nodes and edges."""
        for node in self.nodes.values():
            node.state = states.get(node.id, node.state)
        for edge in self.edges.values():
            edge.state = states.get(edge.id, edge.state)


class GraphBuilder:
    """Builds a graph node by node."""

    def __init__(self, *, graph_cls: type[Graph]) -> None:
        self._graph = graph_cls
        self._nodes: dict[str, AnyNode] = {}
        self._edges: list[Edge] = []

    def add_root(self, node: AnyNode) -> GraphBuilder:
        """Add the node that begins a run. It comes first, once."""
        if self._nodes:
            raise ValueError("the graph has its root already")
        self._add(node)
        return self

    def add_node(
        self, node: AnyNode, *, from_node_id: str | None = None, source_handle: str = "source"
    ) -> GraphBuilder:
        """Add a node, with an edge from another one, or else from the one before."""
        if not self._nodes:
            raise ValueError("add the root first")
        tail = from_node_id or next(reversed(self._nodes))
        self._known(tail)
        self._add(node)
        return self.connect(tail=tail, head=node.id, source_handle=source_handle)

    def connect(self, *, tail: str, head: str, source_handle: str = "source") -> GraphBuilder:
        """Add an edge between two nodes."""
        self._known(tail)
        self._known(head)
        key = f"edge_{len(self._edges)}"
        self._edges.append(Edge(id=key, tail=tail, head=head, source_handle=source_handle))
        return self

    def build(self) -> Graph:
        """Return the graph.

        Raises:
            ValueError: if it has no nodes.
            GraphValidationError: for circles, and a root that cannot begin a run.

        """
        if not self._nodes:
            raise ValueError("the graph has no nodes: add a root")
        root = next(iter(self._nodes.values()))
        kinds = {key: node.execution_type for key, node in self._nodes.items()}
        issues = edge_issues(self._nodes, self._edges) + root_issues(root.id, kinds)
        if issues:
            raise GraphValidationError(issues)
        return self._graph.of(dict(self._nodes), self._edges, root)

    def _add(self, node: AnyNode) -> None:
        if node.id in self._nodes:
            raise ValueError(f"the graph has two nodes {node.id!r}")
        self._nodes[node.id] = node

    def _known(self, node_id: str) -> None:
        if node_id not in self._nodes:
            raise ValueError(f"the graph has no node {node_id!r}")


def typed_config(config: Mapping[str, Any]) -> NodeConfigDict:
    """Return a node of a configuration as factories get it."""
    return {"id": str(config["id"]), "data": BaseNodeData.model_validate(config["data"])}


def all_edges(config: Mapping[str, Any]) -> list[Edge]:
    """Return the edges of a configuration, also those inside of containers."""
    return [
        Edge(
            id=str(edge.get("id") or f"edge_{index}"),
            tail=str(edge.get("source") or ""),
            head=str(edge.get("target") or ""),
            source_handle=str(edge.get("sourceHandle") or "source"),
        )
        for index, edge in enumerate(config.get("edges") or [])
    ]


def _config(nodes: Any, edges: Any) -> dict[str, Any]:
    return {
        "nodes": [node.config() for node in nodes],
        "edges": [
            {"id": edge.id, "source": edge.tail, "target": edge.head, "sourceHandle": edge.source_handle}
            for edge in edges
        ],
    }
