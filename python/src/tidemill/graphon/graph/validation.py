"""The checks of a graph before it is run. The engine checks much more when the run begins."""

from __future__ import annotations

from collections import Counter
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
    issues: list[GraphValidationIssue] = []
    for edge in edges:
        for end, node in (("source", edge.tail), ("target", edge.head)):
            if node not in before:
                text = f"edge {edge.id} has an unknown node as its {end}: {node!r}"
                issues.append(GraphValidationIssue("MISSING_NODE", text, node))
        if edge.head in before:
            before[edge.head].append(edge.tail)
    if not issues:
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            issues.append(GraphValidationIssue("CYCLE", "the graph has a cycle: " + " -> ".join(circle), circle[0]))
    return issues


def scope_problems(
    owners: Mapping[str, str], kinds: Mapping[str, NodeExecutionType], edges: Iterable[Edge]
) -> list[str]:
    """Return what is wrong with containers: ``owners`` has the iteration or loop around each node."""
    problems: list[str] = []
    for node, owner in owners.items():
        if owner and owner not in owners:
            problems.append(f"node {node!r} is inside of {owner!r}: unknown or cyclic containers")
        elif owner and kinds[owner] is not NodeExecutionType.CONTAINER:
            problems.append(f"node {node!r} is inside of {owner!r}, which is not a container")
    for edge in edges:
        if owners.get(edge.tail, "") != owners.get(edge.head, ""):
            problems.append(
                f"edge {edge.id} leads from {edge.tail!r} to {edge.head!r}, and crosses the border of a container"
            )
    return problems


def repeated(ids: Iterable[str]) -> list[str]:
    """Return the ids that come more than once."""
    counts = Counter(ids)
    return sorted(key for key, count in counts.items() if count > 1)


def root_issues(root: str, kinds: Mapping[str, NodeExecutionType]) -> list[GraphValidationIssue]:
    """Return the problem of a root that cannot begin a run."""
    if kinds.get(root) is NodeExecutionType.ROOT:
        return []
    return [GraphValidationIssue("INVALID_ROOT", f"node {root!r} cannot begin a run: it is no start node", root)]
