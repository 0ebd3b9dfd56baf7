"""Objects that graphon's nodes take beside their data. They are kept and not used: Tidemill has its own settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class CodeNodeLimits(SimpleNamespace):
    """Limits of code nodes. Tidemill's are in its settings (``sandbox`` and ``run``)."""


class HttpRequestNodeDependencies(SimpleNamespace):
    """The file stores of an HTTP request node. Tidemill's are in its settings (``files``)."""


class QuestionClassifierNodeDependencies(SimpleNamespace):
    """The model of a question classifier. Tidemill takes the model that the node names."""


def build_http_request_config(**limits: Any) -> SimpleNamespace:
    """Return limits of HTTP requests. Tidemill's are in its settings (``http``)."""
    return SimpleNamespace(**limits)
