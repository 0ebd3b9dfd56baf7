"""A model with its credentials. Tidemill calls it itself; no plugin is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class SlimLLM:
    """A model with its credentials, for ``LLMNode(model_instance=...)``."""

    def __init__(
        self,
        *,
        config: Any = None,
        plugin_id: str = "",
        provider: str,
        model_name: str,
        credentials: Mapping[str, Any],
        parameters: Mapping[str, Any] | None = None,
        stop: Sequence[str] | None = None,
    ) -> None:
        del config
        self.plugin_id = plugin_id
        self.provider = provider
        self.model_name = model_name
        self.parameters = dict(parameters or {})
        self.stop = None if stop is None else list(stop)
        self.tidemill_credentials = dict(credentials)

    def __repr__(self) -> str:
        return f"SlimLLM(provider={self.provider!r}, model_name={self.model_name!r})"
