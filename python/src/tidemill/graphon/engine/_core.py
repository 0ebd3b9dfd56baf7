"""The Tidemill engines of this process that run graphs. One is enough; each set of model credentials gets its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Protocol

ENGINES_MAX = 16
"""The most engines of this process, so the most different sets of credentials."""

SETTINGS: dict[str, dict[str, Any]] = {
    "compat": {
        "template_undefined": "strict",
        "iteration_conversation_writes": "local",
        "nested_answer_stream": "none",
        "fetched_file_names": False,
        "guess_charset": False,
        "editor_migrations": False,
        "code_texts_become_numbers": True,
        "extractor_requires_all": True,
        "webhook_missing_file_is_all": True,
    },
    "worker": {"chunk_gather_ms": 0},
}
"""The settings with which Tidemill behaves as graphon alone, not as Dify's service around it."""


class Core(Protocol):
    """What is used of :class:`tidemill.Engine`."""

    def run(self, workflow: Any, inputs: Any = None, **options: Any) -> Any:
        """Start a run."""

    def resume(self, snapshot: bytes) -> Any:
        """Continue a run."""

    def close(self) -> None:
        """Stop."""


_lock = threading.Lock()
_engines: dict[str, Core] = {}
_chosen: list[Core] = []


def use_engine(engine: Core | None) -> None:
    """Run all graphs on this :class:`tidemill.Engine`, for settings or executors of your own. None: no longer."""
    with _lock:
        _chosen[:] = [] if engine is None else [engine]


def close_engines() -> None:
    """Stop the engines that this module has started. Their runs end."""
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()


def core(providers: Mapping[str, Any]) -> Core:
    """Return the engine for these providers of models.

    Raises:
        RuntimeError: when :data:`ENGINES_MAX` engines run already.

    """
    key = json.dumps(providers, sort_keys=True)
    with _lock:
        if _chosen:
            return _chosen[0]
        if key not in _engines:
            if len(_engines) >= ENGINES_MAX:
                raise RuntimeError(
                    f"{ENGINES_MAX} engines with other credentials run already (ENGINES_MAX): "
                    "call tidemill.graphon.close_engines() when their runs have ended"
                )
            _engines[key] = _start(providers)
        return _engines[key]


def _start(providers: Mapping[str, Any]) -> Core:
    from tidemill import Engine

    settings = {**SETTINGS, **({"providers": dict(providers)} if providers else {})}
    engine: Core = Engine(settings)
    return engine
