"""Small workflows as mappings."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

Node = dict[str, Any]


def flow(*nodes: Node, mode: str = "workflow") -> dict[str, Any]:
    """A workflow of nodes one after the other, from a start node with the field `name`."""
    field = {"variable": "name", "label": "Name", "type": "text-input", "required": False, "max_length": 200}
    chain: list[Node] = [{"id": "start", "type": "start", "title": "Start", "variables": [field]}, *nodes]
    graph = {
        "nodes": [{"id": node["id"], "data": {"title": node["id"], **node}} for node in chain],
        "edges": [
            {"id": f"{a['id']}-{b['id']}", "source": a["id"], "target": b["id"], "sourceHandle": handle(a)}
            for a, b in pairwise(chain)
        ],
    }
    return {
        "app": {"mode": mode, "name": "Test"},
        "kind": "app",
        "version": "0.6.0",
        "workflow": {"graph": graph},
    }


def handle(node: Node) -> str:
    return "ok" if node["type"] == "human-input" else "source"


def end(*selector: str) -> Node:
    return {"id": "end", "type": "end", "outputs": [{"variable": "out", "value_selector": list(selector)}]}


def template(text: str) -> Node:
    variables = [{"variable": "name", "value_selector": ["start", "name"]}]
    return {"id": "greet", "type": "template-transform", "template": text, "variables": variables}


def model(prompt: str) -> Node:
    return {
        "id": "llm",
        "type": "llm",
        "model": {"provider": "openai", "name": "gpt-4o-mini", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": prompt}],
        "context": {"enabled": False, "variable_selector": []},
        "vision": {"enabled": False},
    }


def form() -> Node:
    return {
        "id": "ask",
        "type": "human-input",
        "form_content": "Fine? {{#$output.note#}}",
        "inputs": [{"type": "paragraph", "output_variable_name": "note"}],
        "user_actions": [{"id": "ok", "title": "OK", "button_style": "primary"}],
        "timeout": 1,
        "timeout_unit": "day",
        "delivery_methods": [],
    }


GREETING = flow(template("Hello, {{ name }}!"), end("greet", "output"))
ASKING = flow(form(), end("ask", "note"))
