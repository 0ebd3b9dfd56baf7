"""The fleet: workers, queues, triggers, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidemill.client.operations.runs import PAGE
from tidemill.client.request import Operation, Pages, Request, data, get, given, path, remove, send, whole
from tidemill.client.retries import Repeat

if TYPE_CHECKING:
    from tidemill.models import (
        AuditEntry,
        BulkRetry,
        DeadFilter,
        DeadLetter,
        DeadLetterContent,
        Queue,
        RaisedShards,
        Retried,
        Shards,
        Trigger,
        Worker,
    )


def workers() -> Operation[list[Worker]]:
    """List the living workers."""
    return get(data, "workers")


def queues() -> Operation[list[Queue]]:
    """List the queues."""
    return get(data, "queues")


def shards() -> Operation[Shards]:
    """List the shards."""
    return get(whole, "shards")


def raise_shards(number: int) -> Operation[RaisedShards]:
    """Raise the number of shards."""
    return send("POST", whole, "shards", body={"shards": number}, repeat=Repeat.ANY)


def triggers() -> Operation[list[Trigger]]:
    """List the triggers of all apps."""
    return get(data, "triggers")


def audit(
    since: float | None, first: str | None, who: str | None, action: str | None, page: int = PAGE
) -> Pages[AuditEntry]:
    """List who changed what, newest first."""
    filters = given(since=None if since is None else str(since), who=who, action=action)

    def request(before: str | None) -> Request:
        return Request("GET", path("audit"), filters | given(limit=str(page), before=before or first))

    return Pages(request)


def dead(page: int = PAGE) -> Pages[DeadLetter]:
    """List dead letters, newest first."""

    def request(before: str | None) -> Request:
        return Request("GET", path("dead"), given(limit=str(page), before=before))

    return Pages(request)


def show_dead(letter: str) -> Operation[DeadLetterContent]:
    """Show a dead letter with its content."""
    return get(whole, "dead", letter)


def retry_dead(letter: str) -> Operation[Retried]:
    """Retry a dead letter."""
    return send("POST", whole, "dead", letter, "retry")


def retry_all_dead(
    which: DeadFilter | Mapping[str, Any], dry_run: bool, before: str | None, limit: int | None
) -> Operation[BulkRetry]:
    """Count or retry the dead letters that match. What was retried is gone, so a repeated request retries the rest."""
    body = {"filter": dict(which), "dry_run": dry_run, **given(before=before, limit=limit)}
    return send("POST", whole, "dead", "retry", body=body, repeat=Repeat.ANY if dry_run else Repeat.REFUSED)


def drop_dead(letter: str) -> Operation[None]:
    """Remove a dead letter."""
    return remove("dead", letter)
