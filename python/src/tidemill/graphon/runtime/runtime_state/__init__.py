"""The state of a run."""

from .state import RuntimeState

__all__ = ["RuntimeState"]
