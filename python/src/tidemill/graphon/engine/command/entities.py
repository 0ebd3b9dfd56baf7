"""The commands to a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ...variables.variables import Variable


class AbortCommand(BaseModel):
    """Ends the run."""

    command_type: Literal["abort"] = "abort"
    reason: str | None = None


class PauseCommand(BaseModel):
    """Pauses the run when the nodes that run now have ended."""

    command_type: Literal["pause"] = "pause"
    reason: str = "unknown reason"


class UpdateVariablesCommand(BaseModel):
    """Sets variables."""

    command_type: Literal["update_variables"] = "update_variables"
    updates: Sequence[Variable] = ()


Command = Annotated[AbortCommand | PauseCommand | UpdateVariablesCommand, Field(discriminator="command_type")]
