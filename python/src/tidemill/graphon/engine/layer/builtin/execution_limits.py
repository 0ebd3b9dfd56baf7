"""A layer that limits the steps and the time of a run."""

from __future__ import annotations

from ..base import Layer


class ExecutionLimitsLayer(Layer):
    """Limits the steps and the time of a run. The engine itself watches the limits, so no step too many begins."""

    def __init__(self, max_steps: int, max_time: int) -> None:
        super().__init__()
        self.max_steps = max_steps
        self.max_time = max_time

    def options(self) -> dict[str, int]:
        """Return the limits as options of a workflow file."""
        return {"max_steps": self.max_steps, "max_execution_time_s": self.max_time}
