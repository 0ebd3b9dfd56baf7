"""The parameters with which graphon's programs build nodes. The engine does not use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


class InitParams(BaseModel):
    """What stays the same during a run."""

    workflow_id: str
    graph_config: Mapping[str, Any]
    run_context: Mapping[str, Any]
    call_depth: int
