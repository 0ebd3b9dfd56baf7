"""The checks of a graph before it is run. The engine checks much more when the run begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from ..enums import NodeExecutionType
from .edge import Edge


@dataclass(frozen=True)
class GraphValidationIssue:
    """A problem of a graph."""

    code: str
    message: str
    node_id: str | None = None


class GraphValidationError(ValueError):
    """A graph has problems."""

    def __init__(self, issues: Sequence[GraphValidationIssue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(f"[{issue.code}] {issue.message}" for issue in issues))


def edge_issues(nodes: Iterable[str], edges: Iterable[Edge]) -> list[GraphValidationIssue]:
    """Return the edges that lead from or to no node, and a circle."""
    before: dict[str, list[str]] = {node: [] for node in nodes}
    issues = []
    for edge in edges:
        for end, node in (("source", edge.tail), ("target", edge.head)):
            if node not in before:
                text = f"edge {edge.id} has the {end} {node!r}, and there is no such node"
                issues.append(GraphValidationIssue("MISSING_NODE", text, node))
        if edge.head in before:
            before[edge.head].append(edge.tail)
    if not issues:
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            issues.append(GraphValidationIssue("CYCLE", "a circle: " + " -> ".join(circle), circle[0]))
    return issues


def root_issues(root: str, kinds: Mapping[str, NodeExecutionType]) -> list[GraphValidationIssue]:
    """Return the problem of a root that cannot begin a run."""
    if kinds.get(root) is NodeExecutionType.ROOT:
        return []
    return [GraphValidationIssue("INVALID_ROOT", f"node {root!r} cannot begin a run: it is no start node", root)]
