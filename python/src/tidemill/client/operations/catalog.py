"""Entries that Redis keeps for all workers: providers, profiles, library nodes, Calls, services and data sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.client.request import Operation, data, get, send, whole
from tidemill.client.request import remove as removed
from tidemill.client.retries import Repeat

Entry = dict[str, Any]
"""An entry: `id`, the fields of its kind, `version`, and times. Secrets are `***`."""


def listed(kind: str) -> Operation[list[Entry]]:
    """List the entries of a kind, by id."""
    return get(data, kind)


def show(kind: str, entry: str) -> Operation[Entry]:
    """Show an entry."""
    return get(whole, kind, entry)


def add(kind: str, entry: str, fields: Mapping[str, Any]) -> Operation[Entry]:
    """Store a new entry; one that exists is a conflict."""
    return send("POST", whole, kind, body={**fields, "id": entry})


def put(kind: str, entry: str, fields: Mapping[str, Any]) -> Operation[Entry]:
    """Create or replace an entry. With `version` among the fields it must still be that version."""
    has_version = "version" in fields
    return send("PUT", whole, kind, entry, body=dict(fields), repeat=Repeat.REFUSED if has_version else Repeat.ANY)


def remove(kind: str, entry: str, force: bool) -> Operation[None]:
    """Remove an entry; with `force` also when others use it."""
    return removed(kind, entry, query={"force": "true"} if force else None)
