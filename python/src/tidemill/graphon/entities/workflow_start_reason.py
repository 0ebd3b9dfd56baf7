"""Why a run begins."""

from __future__ import annotations

from .._strenum import StrEnum


class WorkflowStartReason(StrEnum):
    """Why a run begins."""

    INITIAL = "initial"
    RESUMPTION = "resumption"
