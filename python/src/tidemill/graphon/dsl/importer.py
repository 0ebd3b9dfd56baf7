"""Reads workflow files of Dify, and builds engines for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from .._json import is_object
from ..engine import Engine
from ..engine._document import provider
from ..engine._translate import to_runtime
from ..engine.command.protocol import CommandChannel
from ..entities.graph_config import NodeConfigDict
from ..enums import BuiltinNodeTypes, NodeExecutionType
from ..graph.graph import AnyNode, Graph, all_edges, container_of, data_of, nodes_of
from ..graph.validation import GraphValidationError, repeated
from ..nodes.kinds import NODE_CLASSES
from ..runtime.init_params import InitParams
from ..runtime.runtime_state import RuntimeState
from ..runtime.variable_pool import VariablePool
from ..variables.variables import SecretVariable
from .entities import (
    DslCredentials,
    DslDocument,
    DslImportPlan,
    DslKind,
    DslRuntimeVariable,
    DslRuntimeVariables,
    LoadStatus,
)
from .errors import DslError

_RUNNABLE_MODES = ("workflow", "advanced-chat")


class _Factory:
    """Makes the nodes of a file."""

    def __init__(self, params: InitParams, state: RuntimeState) -> None:
        self._params = params
        self._state = state

    def with_graph_config(self, graph_config: Mapping[str, Any]) -> _Factory:
        return _Factory(self._params.model_copy(update={"graph_config": graph_config}), self._state)

    def validate_node(self, node_config: NodeConfigDict) -> NodeExecutionType:
        return NODE_CLASSES[node_config["data"].type].execution_type

    def create_node(self, node_config: NodeConfigDict) -> AnyNode:
        cls = NODE_CLASSES[node_config["data"].type]
        return cls(node_config["id"], node_config["data"], init_params=self._params, runtime_state=self._state)


def inspect(dsl: str, *, source_kind: DslKind | None = None) -> DslImportPlan:
    """Read a workflow file.

    Raises:
        DslError: if it is no workflow file.

    """
    payload = _parse(dsl)
    kind = _kind(payload, source_kind)
    if kind is DslKind.RAG_PIPELINE:
        return _unsupported(kind, "a knowledge pipeline is not run by an engine: publish it on a scheduler")
    if kind is DslKind.GRAPH:
        return _plan(kind, _graph_of(payload, kind), payload)
    app = payload.get("app")
    mode = str(data_of({"data": app}).get("mode") or "") if isinstance(app, Mapping) else ""
    if not isinstance(app, Mapping):
        raise DslError("the file has no `app`", code="kind.missing_app", path="/app", kind=kind)
    if mode not in _RUNNABLE_MODES:
        return _unsupported(kind, f"an app of the mode {mode!r} has no workflow to run")
    workflow: Any = payload.get("workflow")
    if not is_object(workflow):
        raise DslError("the file has no `workflow`", code="graph.missing_workflow", path="/workflow", kind=kind)
    return _plan(kind, _graph_of(workflow, kind), workflow)


def loads(
    dsl: str,
    *,
    credentials: dict[str, Any] | str | None = None,
    source_kind: DslKind | None = None,
    workflow_id: str | None = None,
    root_node_id: str | None = None,
    run_context: Mapping[str, Any] | None = None,
    start_inputs: Mapping[str, Any] | None = None,
    command_channel: CommandChannel | None = None,
    workers: int = 5,
    container_handler_factories: Sequence[Any] = (),
) -> Engine:
    """Return an engine for a workflow file.

    Raises:
        DslError: if the file cannot be run.

    """
    plan = inspect(dsl, source_kind=source_kind)
    config = plan.document.graph_config
    if config is None or not plan.loadable:
        raise DslError(plan.load_reason or "the file has no graph", code="plan.unsupported", kind=plan.document.kind)
    root = root_node_id or _root(config)
    workflow_id = workflow_id or str(uuid4())
    pool = _pool(plan.document.runtime_variables, root, run_context or {}, start_inputs or {})
    state = RuntimeState(variable_pool=pool, start_at=time.time(), workflow_id=workflow_id)
    params = InitParams(workflow_id=workflow_id, graph_config=config, run_context=run_context or {}, call_depth=0)
    try:
        graph = Graph.init(graph_config=config, node_factory=_Factory(params, state), root_node_id=root)
    except GraphValidationError as error:
        raise DslError(str(error), code="graph.validation_failed", kind=plan.document.kind) from error
    except ValueError as error:
        raise DslError(str(error), code="graph.build_failed", kind=plan.document.kind) from error
    return Engine(
        graph=graph,
        runtime_state=state,
        command_channel=command_channel,
        workers=workers,
        container_handler_factories=container_handler_factories,
        source=_parse(dsl),
        providers=_providers(credentials),
    )


def _parse(dsl: str) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise ImportError("reading workflow files needs PyYAML: pip install 'tidemill[graphon]'") from error
    try:
        payload: Any = yaml.safe_load(dsl)
    except yaml.YAMLError as error:
        raise DslError(f"the file is not YAML: {error}", code="parse.invalid_yaml") from error
    if not is_object(payload):
        raise DslError("the file is no mapping", code="parse.expected_mapping")
    return payload


def _kind(payload: Mapping[str, Any], expected: DslKind | None) -> DslKind:
    found = payload.get("kind")
    if not found:
        raise DslError("the file has no `kind`", code="kind.missing", path="/kind")
    try:
        kind = DslKind(found)
    except ValueError:
        raise DslError(f"there is no kind {found!r} of files", code="kind.unsupported", path="/kind") from None
    if expected is not None and kind is not expected:
        raise DslError(f"the file is of the kind {kind}, not {expected}", code="kind.mismatch", path="/kind", kind=kind)
    return kind


def _graph_of(holder: Mapping[str, Any], kind: DslKind) -> Mapping[str, Any]:
    for name in ("graph_config", "graph"):
        graph: Any = holder.get(name)
        if is_object(graph):
            return graph
    workflow: Any = holder.get("workflow")
    if is_object(workflow):
        return _graph_of(workflow, kind)
    raise DslError("the file has no graph", code="graph.missing", kind=kind)


def _unsupported(kind: DslKind, reason: str) -> DslImportPlan:
    return DslImportPlan(document=DslDocument(kind=kind), load_status=LoadStatus.UNSUPPORTED, load_reason=reason)


def _plan(kind: DslKind, graph: Mapping[str, Any], holder: Mapping[str, Any]) -> DslImportPlan:
    nodes = [node for node in nodes_of(graph) if data_of(node).get("type")]
    config = {**graph, "nodes": nodes, "edges": list(graph.get("edges") or [])}
    _check_ids(config, kind)
    unknown = sorted({node["data"]["type"] for node in nodes} - NODE_CLASSES.keys())
    reason = f"node types that are not known: {', '.join(unknown)}" if unknown else None
    variables = DslRuntimeVariables(
        environment_variables=_declared(holder, "environment_variables"),
        conversation_variables=_declared(holder, "conversation_variables"),
    )
    return DslImportPlan(
        document=DslDocument(kind=kind, graph_config=config, runtime_variables=variables),
        load_status=LoadStatus.UNSUPPORTED if reason else LoadStatus.LOADABLE,
        load_reason=reason,
    )


def _check_ids(config: Mapping[str, Any], kind: DslKind) -> None:
    """Refuse ids that come twice, and edges from or to no node."""
    nodes = [str(node.get("id")) for node in nodes_of(config)]
    edges = all_edges(config)
    for what, ids in (("node", nodes), ("edge", [edge.id for edge in edges])):
        for twice in repeated(ids):
            raise DslError(f"Duplicate {what} id {twice!r}", code=f"graph.duplicate_{what}_id", kind=kind)
    for edge in edges:
        for node in (edge.tail, edge.head):
            if node not in nodes:
                raise DslError(
                    f"edge {edge.id!r} names the unknown node {node!r}", code="graph.edge_unknown_node", kind=kind
                )


def _declared(holder: Mapping[str, Any], name: str) -> list[DslRuntimeVariable]:
    declared: list[dict[str, Any]] = list(holder.get(name) or ())
    return [DslRuntimeVariable(name=it["name"], value=it.get("value"), source=it) for it in declared]


def _root(config: Mapping[str, Any]) -> str:
    found = [
        str(node["id"])
        for node in config["nodes"]
        if node["data"]["type"] == BuiltinNodeTypes.START and not container_of(node)
    ]
    if len(found) != 1:
        raise DslError(
            f"the graph has {len(found)} start nodes: name the one to begin at (root_node_id)",
            code="graph.root_ambiguous",
            details={"root_node_candidates": found},
        )
    return found[0]


def _pool(
    variables: DslRuntimeVariables, root: str, context: Mapping[str, Any], inputs: Mapping[str, Any]
) -> VariablePool:
    pool = VariablePool()
    for it in variables.environment_variables:
        value = it.value
        if it.source.get("value_type") == "secret":
            value = SecretVariable(name=it.name, value=str(it.value or ""), selector=["env", it.name])
        pool.add(("env", it.name), value)
    for it in variables.conversation_variables:
        pool.add(("conversation", it.name), to_runtime(it.value))
    for name, value in context.items():
        if value is None or isinstance(value, (str, int, float)):
            pool.add(("sys", str(name)), value)
    for name, value in inputs.items():
        pool.add((root, str(name)), value)
        pool.add(("sys", str(name)), value)
    return pool


def _providers(credentials: dict[str, Any] | str | None) -> dict[str, Any]:
    if credentials is None:
        return {}
    try:
        read = (
            DslCredentials.model_validate_json(credentials)
            if isinstance(credentials, str)
            else DslCredentials.model_validate(credentials)
        )
    except ValidationError as error:
        # The text of the error holds the values, and they are secret.
        fields = ", ".join(".".join(str(part) for part in it["loc"]) for it in error.errors())
        raise DslError(
            f"credentials: wrong fields: {fields}", code="credentials.invalid", path="/credentials"
        ) from None
    found: dict[str, Any] = {}
    for it in read.model_credentials:
        name = (it.provider or it.vendor or "default").rsplit("/", maxsplit=1)[-1]
        found[name] = provider(name, it.values)
    return found
