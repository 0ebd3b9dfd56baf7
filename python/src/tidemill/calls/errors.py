"""The errors of Calls: one that a Call raises to fail, and one for a class that cannot be registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class CallError(Exception):
    """Raised by a Call that fails: the node fails with the class `CallError` and this text."""

    def __init__(self, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        #: Details for code that catches the error. They are not sent: the node's error has the text alone.
        self.data = dict(data or {})


class CallStandardError(TypeError):
    """A class does not meet the Call standard, so it is not registered."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(f"{name} does not meet the Call standard: {'; '.join(problems)}")
