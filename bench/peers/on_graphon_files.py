"""The workflow files that graphon and the embedded engine run: template nodes that pass a text on."""

import json


def workflow(before):
    """Builds template nodes that pass the text on. `before` has the steps before each step, from 1 (0: the start)."""
    start = {"type": "start", "title": "Start", "variables": [
        {"variable": "text", "label": "Text", "type": "paragraph", "required": True, "max_length": 1000}]}
    nodes, edges = [{"id": "start", "data": start}], []
    for step, fronts in before.items():
        nodes.append({"id": f"step{step}", "data": {
            "type": "template-transform", "title": f"Step {step}", "template": "{{ text }}",
            "variables": [{"variable": "text", "value_selector": selector(fronts[0])}]}})
        edges += [(selector(front)[0], f"step{step}") for front in fronts]
    last = max(before)
    outputs = [{"variable": "text", "value_selector": selector(last)}]
    nodes.append({"id": "end", "data": {"type": "end", "title": "End", "outputs": outputs}})
    edges.append((f"step{last}", "end"))
    graph = {"nodes": nodes, "edges": [{"source": a, "target": b} for a, b in edges]}
    # JSON is also valid YAML.
    return json.dumps({"kind": "graph", "dependencies": [], "graph": graph})


def selector(step):
    return [f"step{step}", "output"] if step else ["start", "text"]


def chain(steps):
    return workflow({step: [step - 1] for step in range(1, steps + 1)})


def fan(width):
    beside = {step: [1] for step in range(2, width + 2)}
    return workflow({1: [0], **beside, width + 2: list(beside)})
