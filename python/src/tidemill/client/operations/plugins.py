"""Plugins that are installed for all workers. Their credentials are entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.client.operations.files import Source, body
from tidemill.client.request import Operation, Request, data, get, path, send, whole
from tidemill.client.request import remove as removed

if TYPE_CHECKING:
    from tidemill.models import Plugin


def install(package: Source) -> Operation[Plugin]:
    """Install a plugin; the same package again changes nothing."""
    content, size, _, repeat = body(package)
    headers = {"Content-Type": "application/zip", **({} if size is None else {"Content-Length": str(size)})}
    return Operation(Request("POST", path("plugins"), {}, headers, content, repeat), whole)


def listed() -> Operation[list[Plugin]]:
    """List the installed plugins."""
    return get(data, "plugins")


def show(plugin: str) -> Operation[Plugin]:
    """Show an installed plugin."""
    return get(whole, "plugins", plugin)


def options(plugin: str, provider: str, tool: str, parameter: str, app: str | None) -> Operation[list[dict[str, Any]]]:
    """List the options of a parameter, as the plugin lists them now."""
    body = {"provider": provider, "tool": tool, "parameter": parameter, **({} if app is None else {"app": app})}
    return send("POST", _options, "plugins", plugin, "options", body=body)


def _options(answer: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer["options"]
    return found


def remove(plugin: str) -> Operation[None]:
    """Remove an installed plugin."""
    return removed("plugins", plugin)
