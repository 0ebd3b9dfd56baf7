"""The variables of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field

from ..file.models import File
from ..variables.consts import SELECTORS_LENGTH
from ..variables.factory import build_segment, segment_to_variable
from ..variables.segments import FileSegment, Segment
from ..variables.variables import Variable, VariableBase

VariableValue = str | int | float | dict[str, Any] | list[Any] | File
"""A value of a variable."""


class VariablePool(BaseModel):
    """The variables of a run, by node and name. ``sys``, ``env`` and ``conversation`` are nodes, too."""

    model_config = ConfigDict(extra="forbid")

    variable_dictionary: dict[str, dict[str, Variable]] = Field(default_factory=dict)

    @classmethod
    def empty(cls) -> VariablePool:
        """Return a pool without variables."""
        return cls()

    @classmethod
    def from_bootstrap(
        cls,
        *,
        system_variables: Sequence[Any] = (),
        environment_variables: Sequence[Any] = (),
        conversation_variables: Sequence[Any] = (),
        user_inputs: Mapping[str, Any] | None = None,
    ) -> VariablePool:
        """Return a pool with these variables. ``user_inputs`` is not used; add inputs under the start node's id."""
        del user_inputs
        pool = cls()
        groups = (("sys", system_variables), ("env", environment_variables), ("conversation", conversation_variables))
        for node, variables in groups:
            for variable in variables:
                selector = [node, variable.name]
                pool.add(selector, variable.model_copy(update={"selector": selector}))
        return pool

    def add(self, selector: Sequence[str], value: Any, /) -> None:
        """Set a variable.

        Raises:
            ValueError: if the selector does not have two parts, or for a value that a run cannot have.

        """
        if len(selector) != SELECTORS_LENGTH:
            raise ValueError(f"a variable is set by node and name, and {list(selector)} has {len(selector)} parts")
        variable = segment_to_variable(segment=build_segment(value), selector=selector)
        self.variable_dictionary.setdefault(selector[0], {})[selector[1]] = variable

    def get(self, selector: Sequence[str], /) -> Segment | None:
        """Return a value; further parts of the selector lead into it. None if there is none."""
        if len(selector) < SELECTORS_LENGTH:
            return None
        found: Any = self.get_variable(selector[:SELECTORS_LENGTH])
        if found is None or len(selector) == SELECTORS_LENGTH:
            return found  # type: ignore[no-any-return]
        value: Any = found.value
        for part in selector[SELECTORS_LENGTH:]:
            value = _inside(value, part)
            if value is None:
                return None
        return build_segment(value)

    def get_variable(self, selector: Sequence[str], /) -> VariableBase | None:
        """Return a variable by node and name; None if there is none."""
        if len(selector) != SELECTORS_LENGTH:
            return None
        return self.variable_dictionary.get(selector[0], {}).get(selector[1])

    def get_file(self, selector: Sequence[str], /) -> FileSegment | None:
        """Return a value if it is a file."""
        found = self.get(selector)
        return found if isinstance(found, FileSegment) else None

    def remove(self, selector: Sequence[str], /) -> None:
        """Remove a variable, or all variables of a node."""
        if len(selector) == 1:
            self.variable_dictionary.pop(selector[0], None)
        elif selector:
            self.variable_dictionary.get(selector[0], {}).pop(selector[1], None)

    def get_by_prefix(self, prefix: str, /) -> Mapping[str, Any]:
        """Return a copy of a node's values."""
        return {name: deepcopy(it.value) for name, it in self.variable_dictionary.get(prefix, {}).items()}

    def flatten(self, *, unprefixed_node_id: str | None = None) -> Mapping[str, Any]:
        """Return a copy of all values, as ``node.name``."""
        return {
            name if node == unprefixed_node_id else f"{node}.{name}": deepcopy(it.value)
            for node, variables in self.variable_dictionary.items()
            for name, it in variables.items()
        }


def _inside(value: Any, part: str) -> Any:
    if isinstance(value, File):
        return value.attribute(part)
    return cast("Mapping[str, Any]", value).get(part) if isinstance(value, Mapping) else None
