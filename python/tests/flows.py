"""Small workflows for tests, as mappings: a chain of nodes between a start node and an end node."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any


def node(id: str, type: str, **data: Any) -> dict[str, Any]:
    """A node."""
    return {"id": id, "data": {"type": type, "title": id.capitalize(), **data}}


def llm(id: str = "llm", prompt: str = "{{#start.q#}}", **data: Any) -> dict[str, Any]:
    """A model node, in Dify's form."""
    return node(
        id,
        "llm",
        **{
            "model": {"provider": "default", "name": "fake", "mode": "chat", "completion_params": {}},
            "prompt_template": [{"role": "user", "text": prompt}],
            "context": {"enabled": False, "variable_selector": []},
            "vision": {"enabled": False},
            **data,
        },
    )


def tool(id: str = "tool", provider: str = "acme", **data: Any) -> dict[str, Any]:
    """A tool node with the parameter `text`, which is the question."""
    return node(
        id,
        "tool",
        **{
            "provider_id": provider,
            "provider_name": provider,
            "provider_type": "builtin",
            "tool_name": "say",
            "tool_label": "Say",
            "tool_configurations": {},
            "tool_parameters": {"text": {"type": "mixed", "value": "{{#start.q#}}"}},
            **data,
        },
    )


def template(id: str, text: str = "{{ q }}", **data: Any) -> dict[str, Any]:
    """A template node; `q` is the question."""
    variables = [{"variable": "q", "value_selector": ["start", "q"]}]
    return node(id, "template-transform", template=text, variables=variables, **data)


def answer(id: str, text: str) -> dict[str, Any]:
    """An answer node."""
    return node(id, "answer", answer=text)


def ask(id: str = "ask") -> dict[str, Any]:
    """A node that asks a person for a whole number."""
    return node(
        id,
        "user-interaction",
        interaction_type="ask_for_input",
        show_message="How many?",
        input_schema={"type": "integer"},
    )


def chain(*nodes: Mapping[str, Any], outputs: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A workflow: start, these nodes one after the other, end. `outputs` maps names to `node.name`."""
    start = node("start", "start", variables=[{"variable": "q", "label": "Question", "type": "text-input"}])
    outputs = outputs if outputs is not None else {"text": f"{nodes[-1]['id']}.text"}
    selected = [{"variable": name, "value_selector": path.split(".")} for name, path in outputs.items()]
    return of([start, *nodes, node("end", "end", outputs=selected)])


def chat(*nodes: Mapping[str, Any]) -> dict[str, Any]:
    """A chat flow: start and these nodes one after the other; the last ones are answers."""
    return of([node("start", "start", variables=[]), *nodes], mode="advanced-chat")


def of(
    nodes: list[Mapping[str, Any]] | list[dict[str, Any]],
    edges: list[tuple[str, str] | tuple[str, str, str]] | None = None,
    mode: str = "workflow",
) -> dict[str, Any]:
    """A workflow with these nodes. Edges are pairs, or triples with a handle; without any the nodes are a chain."""
    ids = [str(one["id"]) for one in nodes]
    pairs: list[Any] = edges if edges is not None else list(itertools.pairwise(ids))
    listed = []
    for pair in pairs:
        source, target, *handle = pair
        listed.append(
            {
                "id": f"{source}-{target}-{handle[0] if handle else 'source'}",
                "source": source,
                "target": target,
                "sourceHandle": handle[0] if handle else "source",
                "targetHandle": "target",
            }
        )
    return {
        "app": {"mode": mode, "name": "Test"},
        "kind": "app",
        "version": "0.6.0",
        "workflow": {"graph": {"nodes": [dict(one) for one in nodes], "edges": listed}},
    }


def kinds(events: Any) -> list[str]:
    """The types of events."""
    return [event.type for event in events]
