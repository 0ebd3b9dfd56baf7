"""Plugins that are installed for all workers. Their credentials are entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.client.operations.files import Source, body
from tidemill.client.request import Operation, Request, data, get, path, whole
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


def remove(plugin: str) -> Operation[None]:
    """Remove an installed plugin."""
    return removed("plugins", plugin)
