"""`Client`: one object for all of `/api/v1`. It builds requests and passes them to its transport."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from tidemill._workflow import Workflow
from tidemill.client._sync.resources import AdminKeys, Apps, Dead, Entries, Files, Keys, Knowledge, Plugins
from tidemill.client._sync.run import RemoteRun
from tidemill.client._sync.transport import Transport
from tidemill.client.operations import fleet, runs
from tidemill.client.retries import Retries
from tidemill.client.settings import Settings
from tidemill.client.sse import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from tidemill.models import (
        AuditEntry,
        Breakpoint,
        Queue,
        RaisedShards,
        RunOptions,
        RunSummary,
        Shards,
        Trigger,
        Turn,
        Worker,
    )


class Client:
    """A client of a fleet.

    `url` is the address of a scheduler or of what balances several (else `TIDEMILL_URL`, else
    `http://127.0.0.1:8700`), `key` the admin key (else `TIDEMILL_ADMIN_KEY`). The client sends a failed request again,
    if that is safe, within the bounds of `retries`; `stream_retries` are the bounds for event streams. `http` is a
    client of `httpx`, for example with a proxy or another certificate, which you close yourself.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: Retries | None = None,
        stream_retries: Retries | None = None,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        http: httpx.Client | None = None,
    ) -> None:
        settings = Settings.of(
            url,
            key,
            os.environ,
            timeout=timeout,
            retries=retries,
            stream_retries=stream_retries,
            frame_bytes_max=frame_bytes_max,
        )
        transport = self._transport = Transport(settings, http)
        self.apps = Apps(transport)
        self.keys = Keys(transport)
        self.admin_keys = AdminKeys(transport)
        self.files = Files(transport)
        self.knowledge = Knowledge(transport)
        self.dead = Dead(transport)
        self.providers = Entries(transport, "providers")
        self.profiles = Entries(transport, "profiles")
        self.library = Entries(transport, "library")
        self.calls = Entries(transport, "calls")
        self.services = Entries(transport, "services")
        self.datasources = Entries(transport, "datasources")
        self.plugins = Plugins(transport)
        self.plugin_credentials = Entries(transport, "plugin-credentials")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transport.settings.shown}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Runs go on."""
        self._transport.close()

    def run(
        self,
        workflow: Workflow | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        app: str | None = None,
        query: str | None = None,
        files: Sequence[Mapping[str, Any]] | None = None,
        user: str | None = None,
        sys: Mapping[str, Any] | None = None,
        conversation: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        memory: Sequence[Turn] | None = None,
        root: str | None = None,
        commands: Sequence[Breakpoint] | None = None,
        options: RunOptions | Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        call_depth: int | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> RemoteRun:
        """Begin a run of a workflow (a path, a text or a mapping), or of a published `app`.

        It begins once, however often the request is sent, because it has a key; with an `idempotency_key` of yours
        that also holds for another process within a day. docs/api.md explains the fields; `extra` has those of a server
        that is newer than this client. Raises `InvalidWorkflow` with all problems, and `InvalidRequest`.
        """
        body = runs.body(
            inputs,
            files,
            extra,
            query=query,
            user=user,
            sys=sys,
            conversation=conversation,
            conversation_id=conversation_id,
            memory=memory,
            root=root,
            commands=commands,
            options=options,
            config=config,
            call_depth=call_depth,
            labels=labels,
        )
        begun = self._transport.do(runs.submit(workflow, app, body, idempotency_key))
        return RemoteRun(
            self._transport,
            begun["id"],
            status=begun["status"],
            version=begun["version"],
            conversation_id=begun.get("conversation_id"),
        )

    def open(self, run_id: str) -> RemoteRun:
        """Return a run by its id, without a request."""
        return RemoteRun(self._transport, run_id)

    def audit(
        self,
        *,
        since: float | None = None,
        before: str | None = None,
        who: str | None = None,
        action: str | None = None,
    ) -> Iterator[AuditEntry]:
        """Return who changed what, newest first, each page when it is needed.

        `since` and `before` are Unix seconds, `who` is the id or the label of an admin key, or `settings`, and `action`
        a text in the method or the route.
        """
        return self._transport.pages(fleet.audit(since, before, who, action))

    def runs(
        self,
        *,
        status: str | None = None,
        app: str | None = None,
        user: str | None = None,
        error: str | None = None,
        since: float | None = None,
        until: float | None = None,
        label: str | None = None,
    ) -> Iterator[RunSummary]:
        """Return all runs that fit, newest first, each page when it is needed.

        `app` is an id, `error` a part of the error in any case. `since` and `until` are Unix seconds of the
        creation; `until` is not included. `label` is a label with its value, `name=value`.
        """
        return self._transport.pages(runs.listed(status, app, user, error, since, until, label))

    def resume(self, snapshot: bytes | str | Mapping[str, Any]) -> RemoteRun:
        """Begin a run from a snapshot, at the place where its run was. Each call begins another run."""
        begun = self._transport.do(runs.resume(snapshot))
        return RemoteRun(self._transport, begun["id"], status=begun["status"])

    def workers(self) -> list[Worker]:
        """Return the living workers."""
        return self._transport.do(fleet.workers())

    def queues(self) -> list[Queue]:
        """Return the queues with the jobs that wait in them."""
        return self._transport.do(fleet.queues())

    def shards(self) -> Shards:
        """Return the shards with their owners and runs."""
        return self._transport.do(fleet.shards())

    def raise_shards(self, number: int) -> RaisedShards:
        """Raise the number of shards while everything runs. It can never be lowered."""
        return self._transport.do(fleet.raise_shards(number))

    def triggers(self) -> list[Trigger]:
        """Return the triggers of all apps."""
        return self._transport.do(fleet.triggers())
