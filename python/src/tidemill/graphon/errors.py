"""The error and the warning by which a program learns that Tidemill does not do what graphon does."""

from __future__ import annotations


class GraphonDifference(UserWarning):
    """Something behaves differently here than with graphon. docs/python-graphon.md lists all differences."""


class CustomNodeError(TypeError):
    """A graph has a node whose class Tidemill does not know."""

    def __init__(self, node_id: str, node_class: str) -> None:
        super().__init__(
            f"node {node_id!r} has the class {node_class}, and classes of your own are not executed. "
            "Register a function for it: `@engine.node(id=...)` of tidemill.Engine, and run the workflow there"
        )
