"""The settings of Dify's plugin programs. They are kept and not used: Tidemill calls models itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class _Kept(SimpleNamespace):
    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(args=args, **fields)


class SlimLocalSettings(_Kept):
    """Where plugins are."""


class SlimProviderBinding(_Kept):
    """The plugin of a provider."""


class SlimConfig(_Kept):
    """How plugins are called."""
