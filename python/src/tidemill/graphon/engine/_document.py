"""Makes a workflow file of a graph and its variables: the form in which Tidemill takes it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from .._json import is_list, is_object, is_tuple
from ..enums import BuiltinNodeTypes
from ..errors import CustomNodeError, GraphonDifference
from ..graph.graph import Graph, data_of, nodes_of
from ..runtime.variable_pool import VariablePool
from ..variables.types import SegmentType

_OWN_NODES = ("sys", "env", "conversation")
_FILE_VERSION = "0.6.0"
# The type that a file declares for a value; whole numbers and fractions are one type there.
_DECLARED = {
    SegmentType.INTEGER: "number",
    SegmentType.FLOAT: "number",
    SegmentType.NONE: "string",
    SegmentType.ARRAY_ANY: "array[any]",
}


@dataclass(frozen=True)
class Submission:
    """What a run is given."""

    workflow: dict[str, Any]
    inputs: dict[str, Any]
    sys: dict[str, Any]


def submission(
    graph: Graph, pool: VariablePool, options: Mapping[str, Any], source: Mapping[str, Any] | None = None
) -> Submission:
    """Return a graph and its variables as a run is given them. ``source`` is the file that the graph came from.

    Raises:
        CustomNodeError: for a node of a class that is not built in.

    """
    for node in graph.nodes.values():
        if not type(node).is_built_in:
            raise CustomNodeError(node.id, type(node).__name__)
    others = pool.variable_dictionary.keys() - {*_OWN_NODES, graph.root_node.id}
    unused = sorted(node for node in others if pool.variable_dictionary[node])
    if unused:
        warnings.warn(
            f"variables of {', '.join(unused)} are not used: a run sets the variables of its nodes itself",
            GraphonDifference,
            stacklevel=2,
        )
    given = dict(source.get("workflow") or {}) if source else {}
    workflow = {
        **given,
        "graph": _plain(graph.graph_config),
        "environment_variables": _declared(pool, "env"),
        "conversation_variables": _declared(pool, "conversation"),
    }
    if options:
        workflow["tidemill"] = {**(given.get("tidemill") or {}), **options}
    mode = "advanced-chat" if _has_answer(graph) else "workflow"
    app = {"mode": mode, "name": graph.root_node.workflow_id or "graph"}
    return Submission(
        workflow={"app": app, "kind": "app", "version": _FILE_VERSION, "workflow": workflow},
        inputs=_values(pool, graph.root_node.id),
        sys=_values(pool, "sys"),
    )


def _has_answer(graph: Graph) -> bool:
    return any(data_of(node).get("type") == BuiltinNodeTypes.ANSWER for node in nodes_of(graph.graph_config))


def _values(pool: VariablePool, node: str) -> dict[str, Any]:
    return {name: _plain(value) for name, value in pool.get_by_prefix(node).items()}


def _declared(pool: VariablePool, node: str) -> list[dict[str, Any]]:
    return [
        {
            "id": it.id,
            "name": name,
            "description": it.description,
            "selector": [node, name],
            "value_type": _DECLARED.get(it.value_type, it.value_type.value),
            "value": _plain(it.value),
        }
        for name, it in pool.variable_dictionary.get(node, {}).items()
    ]


def _plain(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if is_object(value):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_list(value) or is_tuple(value):
        return [_plain(item) for item in value]
    return value


def provider(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a model provider from the credentials of Dify's plugin for it.

    The credentials of OpenAI, Anthropic and of servers with OpenAI's API are understood.
    """
    lower = {str(key).lower(): value for key, value in values.items() if value}
    key = next((it for name_, it in lower.items() if name_ == "api_key" or name_.endswith("_api_key")), None)
    base = next(
        (
            it
            for name_, it in lower.items()
            if name_.endswith(("_api_base", "api_base", "base_url", "_api_url")) or name_ == "endpoint_url"
        ),
        None,
    )
    is_anthropic = name.rsplit("/", maxsplit=1)[-1] == "anthropic"
    found = {"kind": "anthropic" if is_anthropic else "openai_compatible"}
    if key:
        found["api_key"] = str(key)
    if base:
        text = str(base).rstrip("/")
        # Dify's plugins take the address without the version.
        needs_version = not is_anthropic and urlsplit(text).path in ("", "/")
        found["base_url"] = f"{text}/v1" if needs_version else text
    return found
