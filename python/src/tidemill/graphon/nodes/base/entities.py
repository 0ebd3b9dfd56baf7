"""Parts of nodes' data that several types have."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel


class VariableSelector(BaseModel):
    """A variable of a node, and where its value comes from."""

    variable: str
    value_selector: Sequence[str]


class OutputVariableEntity(BaseModel):
    """An output, and where its value comes from."""

    variable: str
    value_type: str = "any"
    value_selector: Sequence[str]
