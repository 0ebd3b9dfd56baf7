# Made by python/scripts/generate_async.py from the file of the same name in _sync: change that one.
"""The resources of a client: apps, keys, entries of the catalog, datasets, dead letters and files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill._workflow import Workflow
from tidemill.client._async.transport import AsyncTransport
from tidemill.client.operations import apps, catalog, files, fleet, knowledge, plugins
from tidemill.client.operations.catalog import Entry

if TYPE_CHECKING:
    from tidemill.models import (
        AdminKey,
        App,
        AppVersion,
        Budget,
        BulkRetry,
        CreatedAdminKey,
        CreatedKey,
        Dataset,
        DatasetDetail,
        DatasetRequest,
        DatasetSummary,
        DeadFilter,
        DeadLetter,
        DeadLetterContent,
        Deliveries,
        DocumentDetail,
        DocumentRequest,
        File,
        Indexed,
        Key,
        Limits,
        Plugin,
        PublishedApp,
        Removal,
        Retried,
        Webhook,
        WebhookTest,
    )


class AsyncResource:
    """A part of the API, over the connections of its client."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport


class AsyncApps(AsyncResource):
    """Published workflows."""

    async def publish(
        self,
        workflow: Workflow,
        *,
        app: str | None = None,
        create: bool = False,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> PublishedApp:
        """Publish a workflow: a new app, whose `key` is shown once, or with `app` a new version of it.

        `create` lets `app`, a UUID, be the id of a new app; `strict` refuses profiles that do not exist. Raises
        `InvalidWorkflow`.
        """
        return await self._transport.do(apps.publish(workflow, app, create, strict, idempotency_key))

    async def all(self) -> list[App]:
        """Return all apps."""
        return await self._transport.do(apps.listed())

    async def get(self, app: str) -> App:
        """Return an app."""
        return await self._transport.do(apps.show(app))

    async def disable(self, app: str) -> App:
        """Switch an app off: it accepts no new runs. Runs under way continue."""
        return await self._transport.do(apps.switch(app, "disable"))

    async def enable(self, app: str) -> App:
        """Switch an app on again."""
        return await self._transport.do(apps.switch(app, "enable"))

    async def roll_back(self, app: str, version: str) -> PublishedApp:
        """Make an earlier version of an app the current one, by its hash."""
        return await self._transport.do(apps.roll_back(app, version))

    async def remove(self, app: str, *, runs: str | None = None) -> Removal:
        """Begin to remove an app; `removals` lists it until it is done.

        `runs` says what becomes of its runs: `keep`, `stop` or `remove`. Without it, raises `Conflict` if runs are
        under way, and keeps them otherwise.
        """
        return await self._transport.do(apps.remove_app(app, runs))

    async def remove_user(self, app: str, user: str) -> Removal:
        """Begin to remove all that belongs to a user of an app; `removals` lists it until it is done."""
        return await self._transport.do(apps.remove_user(app, user))

    async def removals(self) -> list[Removal]:
        """Return the removals of apps and users that are under way."""
        return await self._transport.do(apps.removals())

    async def versions(self, app: str) -> list[AppVersion]:
        """Return the versions of an app, newest first."""
        return await self._transport.do(apps.versions(app))

    async def remove_version(self, app: str, version: str) -> None:
        """Remove a version of an app, by its hash. Raises `Conflict` for the current one, and while a run uses it."""
        await self._transport.do(apps.remove_version(app, version))

    async def keys(self, app: str) -> list[Key]:
        """Return the keys of an app with what they have spent."""
        return await self._transport.do(apps.keys(app))

    async def add_key(
        self,
        app: str,
        *,
        label: str | None = None,
        scopes: Sequence[str] | None = None,
        expires_in_seconds: int | None = None,
    ) -> CreatedKey:
        """Add a key to an app. It is shown once.

        With `scopes` it may only do these: `run`, `read`, `files`, `forms`.
        """
        return await self._transport.do(apps.add_key(app, label, scopes, expires_in_seconds))

    async def set_limits(self, app: str, limits: Limits | Mapping[str, Any]) -> Limits:
        """Set how many requests a second and runs at the same time an app may have.

        0 is no limit; an absent field has the default of the scheduler.
        """
        return await self._transport.do(apps.set_limits("apps", app, limits))

    async def remove_limits(self, app: str) -> None:
        """Remove the limits of an app: the defaults of the scheduler hold again."""
        await self._transport.do(apps.remove_limits("apps", app))

    async def webhook(self, app: str) -> Webhook:
        """Return the webhook of an app, without its secret. Raises `NotFound` if there is none."""
        return await self._transport.do(apps.webhook(app))

    async def set_webhook(
        self,
        app: str,
        url: str,
        *,
        events: Sequence[str] | None = None,
        outputs: bool = False,
        secret: str | None = None,
    ) -> Webhook:
        """Let a server be notified when runs of an app end, fail or pause: `ended`, `failed`, `paused`.

        A new secret is in the answer, once; with `secret="new"` one is made again.
        """
        return await self._transport.do(apps.set_webhook(app, url, events, outputs, secret))

    async def test_webhook(self, app: str) -> WebhookTest:
        """Send a test to the webhook of an app, once."""
        return await self._transport.do(apps.test_webhook(app))

    async def deliveries(self, app: str) -> Deliveries:
        """Return the notices of an app that wait, and the newest ones that were given up."""
        return await self._transport.do(apps.deliveries(app))

    async def remove_webhook(self, app: str) -> None:
        """Remove the webhook of an app. Notices that wait are dropped."""
        await self._transport.do(apps.remove_webhook(app))


class AsyncKeys(AsyncResource):
    """The keys of apps and of datasets."""

    async def all(self) -> list[Key]:
        """Return all keys with what they have spent, also revoked ones."""
        return await self._transport.do(apps.keys(None))

    async def add_for_datasets(self, *, label: str | None = None, expires_in_seconds: int | None = None) -> CreatedKey:
        """Make a key that opens all datasets and no app. It is shown once."""
        return await self._transport.do(apps.add_datasets_key(label, expires_in_seconds))

    async def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> CreatedKey:
        """Replace a key: the new one opens the same and is shown once, the old one ends after the overlap.

        Without `overlap_seconds` that is a day; with 0 the old key is revoked at once.
        Raises `Conflict` for a key that is no longer valid.
        """
        return await self._transport.do(apps.rotate(key_id, overlap_seconds))

    async def revoke(self, key_id: str) -> None:
        """Revoke a key, by its id."""
        await self._transport.do(apps.revoke(key_id))

    async def set_budget(self, key_id: str, budget: Budget | Mapping[str, Any]) -> Budget:
        """Set the budget of a key; an absent field has no limit."""
        return await self._transport.do(apps.set_budget(key_id, budget))

    async def remove_budget(self, key_id: str) -> None:
        """Remove the budget of a key."""
        await self._transport.do(apps.remove_budget(key_id))

    async def set_limits(self, key_id: str, limits: Limits | Mapping[str, Any]) -> Limits:
        """Set how many requests a second and runs at the same time a key may have, as for an app."""
        return await self._transport.do(apps.set_limits("keys", key_id, limits))

    async def remove_limits(self, key_id: str) -> None:
        """Remove the limits of a key: the defaults of the scheduler hold again."""
        await self._transport.do(apps.remove_limits("keys", key_id))


class AsyncAdminKeys(AsyncResource):
    """The keys of this API itself, each with a role: `admin`, `operator` or `read-only`."""

    async def all(self) -> list[AdminKey]:
        """Return all admin keys, also revoked ones."""
        return await self._transport.do(apps.admin_keys())

    async def add(self, label: str, role: str, *, expires_in_seconds: int | None = None) -> CreatedAdminKey:
        """Make an admin key. It is shown once."""
        return await self._transport.do(apps.add_admin_key(label, role, expires_in_seconds))

    async def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> CreatedAdminKey:
        """Replace an admin key: the new one has the same role and is shown once, the old one ends after the overlap.

        Without `overlap_seconds` that is a day; with 0 the old key is revoked at once.
        Raises `Conflict` for a key that is no longer valid.
        """
        return await self._transport.do(apps.rotate_admin_key(key_id, overlap_seconds))

    async def revoke(self, key_id: str) -> None:
        """Revoke an admin key, by its id."""
        await self._transport.do(apps.revoke_admin_key(key_id))


class AsyncEntries(AsyncResource):
    """The entries of one kind that Redis keeps for all workers."""

    def __init__(self, transport: AsyncTransport, kind: str) -> None:
        super().__init__(transport)
        self._kind = kind

    async def all(self) -> list[Entry]:
        """Return all entries, by id. Secrets are `***`."""
        return await self._transport.do(catalog.listed(self._kind))

    async def get(self, entry: str) -> Entry:
        """Return an entry."""
        return await self._transport.do(catalog.show(self._kind, entry))

    async def add(self, entry: str, fields: Mapping[str, Any]) -> Entry:
        """Store a new entry. Raises `Conflict` if there is one."""
        return await self._transport.do(catalog.add(self._kind, entry, fields))

    async def put(self, entry: str, fields: Mapping[str, Any]) -> Entry:
        """Create or replace an entry. With `version` among the fields it raises `Conflict` if that has changed."""
        return await self._transport.do(catalog.put(self._kind, entry, fields))

    async def remove(self, entry: str, *, force: bool = False) -> None:
        """Remove an entry. Raises `Conflict` if others use it, unless forced."""
        await self._transport.do(catalog.remove(self._kind, entry, force))


class AsyncPlugins(AsyncResource):
    """Dify plugins that are installed for all workers, by `author/name:version`."""

    async def all(self) -> list[Plugin]:
        """Return the installed plugins, with the state of each on each worker."""
        return await self._transport.do(plugins.listed())

    async def get(self, plugin: str) -> Plugin:
        """Return an installed plugin."""
        return await self._transport.do(plugins.show(plugin))

    async def add(self, package: files.Source) -> Plugin:
        """Install a package (`.difypkg`). Raises `Conflict` if another one has its id."""
        return await self._transport.do(plugins.install(package))

    async def remove(self, plugin: str) -> None:
        """Remove an installed plugin."""
        await self._transport.do(plugins.remove(plugin))

    async def options(
        self, plugin: str, provider: str, tool: str, parameter: str, *, app: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the options of a parameter, as the plugin lists them now on a worker."""
        return await self._transport.do(plugins.options(plugin, provider, tool, parameter, app))


class AsyncKnowledge(AsyncResource):
    """Datasets and their documents; both are found by id or name."""

    async def create(self, dataset: DatasetRequest | Mapping[str, Any]) -> Dataset:
        """Create a dataset. Raises `Conflict` if there is one."""
        return await self._transport.do(knowledge.create(dataset))

    async def all(self) -> list[DatasetSummary]:
        """Return all datasets."""
        return await self._transport.do(knowledge.listed())

    async def get(self, dataset: str) -> DatasetDetail:
        """Return a dataset with its documents."""
        return await self._transport.do(knowledge.show(dataset))

    async def remove(self, dataset: str) -> None:
        """Remove a dataset with all its documents."""
        await self._transport.do(knowledge.drop(dataset))

    async def add_document(self, dataset: str, document: DocumentRequest | Mapping[str, Any]) -> Indexed:
        """Add a document, or replace one. The `run` of the answer indexes it."""
        return await self._transport.do(knowledge.add_document(dataset, document))

    async def document(self, dataset: str, document: str, *, segments: int | None = None) -> DocumentDetail:
        """Return a document with its first segments."""
        return await self._transport.do(knowledge.show_document(dataset, document, segments))

    async def remove_document(self, dataset: str, document: str) -> None:
        """Remove a document."""
        await self._transport.do(knowledge.drop_document(dataset, document))


class AsyncDead(AsyncResource):
    """Jobs and facts that were given up."""

    def all(self) -> AsyncIterator[DeadLetter]:
        """Return all dead letters, newest first."""
        return self._transport.pages(fleet.dead())

    async def get(self, letter: str) -> DeadLetterContent:
        """Return a dead letter with its content."""
        return await self._transport.do(fleet.show_dead(letter))

    async def retry(self, letter: str) -> Retried:
        """Retry a dead letter. Raises `Conflict` with the reason if that is not possible."""
        return await self._transport.do(fleet.retry_dead(letter))

    async def retry_all(
        self,
        which: DeadFilter | Mapping[str, Any],
        *,
        dry_run: bool = False,
        before: str | None = None,
        limit: int | None = None,
    ) -> BulkRetry:
        """Retry the dead letters that match, or count them. Repeat it with `before=next` until `next` is `None`."""
        return await self._transport.do(fleet.retry_all_dead(which, dry_run, before, limit))

    async def remove(self, letter: str) -> None:
        """Remove a dead letter."""
        await self._transport.do(fleet.drop_dead(letter))


class AsyncFiles(AsyncResource):
    """AsyncFiles for runs, and files that runs have made."""

    async def upload(
        self,
        source: files.Source,
        *,
        name: str | None = None,
        user: str | None = None,
        app: str | None = None,
        media_type: str | None = None,
    ) -> File:
        """Store a file; `as_input` makes it a value of a run's inputs.

        Only runs of the same `user` and `app` may use it. Raises `TooLarge`, and `Forbidden` over a quota.
        """
        return await self._transport.do(files.upload(source, name, user, app, media_type))

    @staticmethod
    def as_input(file: File | Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
        """Return an upload as a value of inputs; `kind` is `document`, `image`, `audio` or `video`."""
        return files.as_input(file, kind)

    async def download(
        self,
        file: str | Mapping[str, Any],
        to: str | os.PathLike[str] | None = None,
        *,
        bytes_max: int = files.DOWNLOAD_BYTES_MAX,
    ) -> bytes:
        """Open a file object with a `url`, or a URL: return its bytes, or store them at `to` and return none.

        The key is not sent. Raises `ValueError` over `bytes_max` bytes without `to`.
        """
        url = files.address(self._transport.settings.url, file)
        return await self._transport.download(url, None if to is None else Path(to), bytes_max)
