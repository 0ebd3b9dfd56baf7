"""Runs: begin, list, show, command, answer, and move them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill._workflow import Workflow, text_of
from tidemill.client.request import (
    JSON,
    Operation,
    Pages,
    Request,
    data,
    encoded,
    flag,
    get,
    given,
    new_key,
    path,
    send,
    whole,
)
from tidemill.client.retries import Repeat

if TYPE_CHECKING:
    from tidemill.models import (
        Accepted,
        AnswerRequest,
        History,
        Imported,
        MessageList,
        Pause,
        Run,
        RunSummary,
        Submitted,
    )

PAGE = 100
"""Runs, letters and so on for one request; the most that the API gives."""


def submit(
    workflow: Workflow | None,
    app: str | None,
    body: Mapping[str, Any],
    idempotency_key: str | None,
) -> Operation[Submitted]:
    """Begin a run. With its key it begins once, however often the request is sent."""
    if (workflow is None) == (app is None):
        raise ValueError("give a workflow, or the id of an app, and not both")
    source = {"app": app} if workflow is None else {"workflow": text_of(workflow)}
    headers = {**JSON, "Idempotency-Key": idempotency_key or new_key()}
    content = encoded({**source, **body})
    return Operation(Request("POST", path("runs"), headers=headers, content=content), whole)


def listed(
    status: str | None,
    app: str | None,
    user: str | None,
    error: str | None,
    since: float | None,
    until: float | None,
    label: str | None = None,
    page: int = PAGE,
) -> Pages[RunSummary]:
    """List runs, newest first."""
    filters = given(
        status=status,
        app=app,
        user=user,
        error=error,
        label=label,
        since=None if since is None else str(since),
        until=None if until is None else str(until),
    )

    def request(before: str | None) -> Request:
        return Request("GET", path("runs"), filters | given(limit=str(page), before=before))

    return Pages(request)


def show(run: str, values: bool = False) -> Operation[Run]:
    """Show a run with its nodes."""
    return get(whole, "runs", run, query={"values": flag(True)} if values else None)


def command(run: str, name: str, key: str | None, **fields: Any) -> Operation[Accepted]:
    """Send a command. It counts once under its key."""
    body = {"command": name, "key": key or new_key(), **given(**fields)}
    return send("POST", whole, "runs", run, "commands", body=body, repeat=Repeat.ANY)


def pauses(run: str) -> Operation[list[Pause]]:
    """List the pauses of a run, oldest first."""
    return get(data, "runs", run, "pauses")


def answer(run: str, pause: str, given_answer: AnswerRequest | Mapping[str, Any]) -> Operation[Accepted]:
    """Answer a pause. The same key again gets the same reply."""
    body = {"key": new_key(), **given_answer}
    return send("POST", whole, "runs", run, "pauses", pause, "answer", body=body, repeat=Repeat.ANY)


def snapshot(run: str) -> Operation[bytes]:
    """Export a run that has not ended."""
    return get(_as_bytes, "runs", run, "snapshot")


def _as_bytes(answer: Any) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def resume(document: bytes | str | Mapping[str, Any]) -> Operation[Imported]:
    """Begin a run from a snapshot. Each import is another run, so a request that may have arrived is not repeated."""
    body = document if isinstance(document, Mapping) else json.loads(document)
    return send("POST", whole, "runs", "import", body=body, repeat=Repeat.UNSENT)


def messages(run: str, name: str, start: int, limit: int) -> Operation[MessageList]:
    """Show a list of messages with a page of its messages."""
    query = {"from": str(start), "limit": str(limit)}
    return get(whole, "runs", run, "messages", name, query=query)


def runtime(run: str) -> Operation[dict[str, Any]]:
    """Show the runtime values of a run's steps."""
    return get(whole, "runs", run, "rt")


def history(run: str, start: int, limit: int, view: str | None, errors: bool) -> Operation[History]:
    """Show a page of the history of a run."""
    query = given(**{"from": str(start), "limit": str(limit), "view": view})
    return get(whole, "runs", run, "history", query={**query, **({"errors": "true"} if errors else {})})


def body(
    inputs: Mapping[str, Any] | None,
    files: Sequence[Mapping[str, Any]] | None,
    extra: Mapping[str, Any] | None,
    **fields: Any,
) -> dict[str, Any]:
    """The fields of a run that are given. `extra` has fields of a server that is newer than this client."""
    lists = given(files=None if files is None else [dict(file) for file in files])
    return {**given(inputs=None if inputs is None else dict(inputs), **fields), **lists, **(extra or {})}
