"""The resources of a client: apps, keys, entries of the catalog, datasets, dead letters and files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill._workflow import Workflow
from tidemill.client._sync.transport import Transport
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


class Resource:
    """A part of the API, over the connections of its client."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Apps(Resource):
    """Published workflows."""

    def publish(
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
        return self._transport.do(apps.publish(workflow, app, create, strict, idempotency_key))

    def all(self) -> list[App]:
        """Return all apps."""
        return self._transport.do(apps.listed())

    def get(self, app: str) -> App:
        """Return an app."""
        return self._transport.do(apps.show(app))

    def disable(self, app: str) -> App:
        """Switch an app off: it accepts no new runs. Runs under way continue."""
        return self._transport.do(apps.switch(app, "disable"))

    def enable(self, app: str) -> App:
        """Switch an app on again."""
        return self._transport.do(apps.switch(app, "enable"))

    def roll_back(self, app: str, version: str) -> PublishedApp:
        """Make an earlier version of an app the current one, by its hash."""
        return self._transport.do(apps.roll_back(app, version))

    def remove(self, app: str, *, runs: str | None = None) -> Removal:
        """Begin to remove an app; `removals` lists it until it is done.

        `runs` says what becomes of its runs: `keep`, `stop` or `remove`. Without it, raises `Conflict` if runs are
        under way, and keeps them otherwise.
        """
        return self._transport.do(apps.remove_app(app, runs))

    def remove_user(self, app: str, user: str) -> Removal:
        """Begin to remove all that belongs to a user of an app; `removals` lists it until it is done."""
        return self._transport.do(apps.remove_user(app, user))

    def removals(self) -> list[Removal]:
        """Return the removals of apps and users that are under way."""
        return self._transport.do(apps.removals())

    def versions(self, app: str) -> list[AppVersion]:
        """Return the versions of an app, newest first."""
        return self._transport.do(apps.versions(app))

    def remove_version(self, app: str, version: str) -> None:
        """Remove a version of an app, by its hash. Raises `Conflict` for the current one, and while a run uses it."""
        self._transport.do(apps.remove_version(app, version))

    def keys(self, app: str) -> list[Key]:
        """Return the keys of an app with what they have spent."""
        return self._transport.do(apps.keys(app))

    def add_key(
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
        return self._transport.do(apps.add_key(app, label, scopes, expires_in_seconds))

    def set_limits(self, app: str, limits: Limits | Mapping[str, Any]) -> Limits:
        """Set how many requests a second and runs at the same time an app may have.

        0 is no limit; an absent field has the default of the scheduler.
        """
        return self._transport.do(apps.set_limits("apps", app, limits))

    def remove_limits(self, app: str) -> None:
        """Remove the limits of an app: the defaults of the scheduler hold again."""
        self._transport.do(apps.remove_limits("apps", app))

    def webhook(self, app: str) -> Webhook:
        """Return the webhook of an app, without its secret. Raises `NotFound` if there is none."""
        return self._transport.do(apps.webhook(app))

    def set_webhook(
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
        return self._transport.do(apps.set_webhook(app, url, events, outputs, secret))

    def test_webhook(self, app: str) -> WebhookTest:
        """Send a test to the webhook of an app, once."""
        return self._transport.do(apps.test_webhook(app))

    def deliveries(self, app: str) -> Deliveries:
        """Return the notices of an app that wait, and the newest ones that were given up."""
        return self._transport.do(apps.deliveries(app))

    def remove_webhook(self, app: str) -> None:
        """Remove the webhook of an app. Notices that wait are dropped."""
        self._transport.do(apps.remove_webhook(app))


class Keys(Resource):
    """The keys of apps and of datasets."""

    def all(self) -> list[Key]:
        """Return all keys with what they have spent, also revoked ones."""
        return self._transport.do(apps.keys(None))

    def add_for_datasets(self, *, label: str | None = None, expires_in_seconds: int | None = None) -> CreatedKey:
        """Make a key that opens all datasets and no app. It is shown once."""
        return self._transport.do(apps.add_datasets_key(label, expires_in_seconds))

    def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> CreatedKey:
        """Replace a key: the new one opens the same and is shown once, the old one ends after the overlap.

        Without `overlap_seconds` that is a day; with 0 the old key is revoked at once.
        Raises `Conflict` for a key that is no longer valid.
        """
        return self._transport.do(apps.rotate(key_id, overlap_seconds))

    def revoke(self, key_id: str) -> None:
        """Revoke a key, by its id."""
        self._transport.do(apps.revoke(key_id))

    def set_budget(self, key_id: str, budget: Budget | Mapping[str, Any]) -> Budget:
        """Set the budget of a key; an absent field has no limit."""
        return self._transport.do(apps.set_budget(key_id, budget))

    def remove_budget(self, key_id: str) -> None:
        """Remove the budget of a key."""
        self._transport.do(apps.remove_budget(key_id))

    def set_limits(self, key_id: str, limits: Limits | Mapping[str, Any]) -> Limits:
        """Set how many requests a second and runs at the same time a key may have, as for an app."""
        return self._transport.do(apps.set_limits("keys", key_id, limits))

    def remove_limits(self, key_id: str) -> None:
        """Remove the limits of a key: the defaults of the scheduler hold again."""
        self._transport.do(apps.remove_limits("keys", key_id))


class AdminKeys(Resource):
    """The keys of this API itself, each with a role: `admin`, `operator` or `read-only`."""

    def all(self) -> list[AdminKey]:
        """Return all admin keys, also revoked ones."""
        return self._transport.do(apps.admin_keys())

    def add(self, label: str, role: str, *, expires_in_seconds: int | None = None) -> CreatedAdminKey:
        """Make an admin key. It is shown once."""
        return self._transport.do(apps.add_admin_key(label, role, expires_in_seconds))

    def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> CreatedAdminKey:
        """Replace an admin key: the new one has the same role and is shown once, the old one ends after the overlap.

        Without `overlap_seconds` that is a day; with 0 the old key is revoked at once.
        Raises `Conflict` for a key that is no longer valid.
        """
        return self._transport.do(apps.rotate_admin_key(key_id, overlap_seconds))

    def revoke(self, key_id: str) -> None:
        """Revoke an admin key, by its id."""
        self._transport.do(apps.revoke_admin_key(key_id))


class Entries(Resource):
    """The entries of one kind that Redis keeps for all workers."""

    def __init__(self, transport: Transport, kind: str) -> None:
        super().__init__(transport)
        self._kind = kind

    def all(self) -> list[Entry]:
        """Return all entries, by id. Secrets are `***`."""
        return self._transport.do(catalog.listed(self._kind))

    def get(self, entry: str) -> Entry:
        """Return an entry."""
        return self._transport.do(catalog.show(self._kind, entry))

    def add(self, entry: str, fields: Mapping[str, Any]) -> Entry:
        """Store a new entry. Raises `Conflict` if there is one."""
        return self._transport.do(catalog.add(self._kind, entry, fields))

    def put(self, entry: str, fields: Mapping[str, Any]) -> Entry:
        """Create or replace an entry. With `version` among the fields it raises `Conflict` if that has changed."""
        return self._transport.do(catalog.put(self._kind, entry, fields))

    def remove(self, entry: str, *, force: bool = False) -> None:
        """Remove an entry. Raises `Conflict` if others use it, unless forced."""
        self._transport.do(catalog.remove(self._kind, entry, force))


class Plugins(Resource):
    """Dify plugins that are installed for all workers, by `author/name:version`."""

    def all(self) -> list[Plugin]:
        """Return the installed plugins, with the state of each on each worker."""
        return self._transport.do(plugins.listed())

    def get(self, plugin: str) -> Plugin:
        """Return an installed plugin."""
        return self._transport.do(plugins.show(plugin))

    def add(self, package: files.Source) -> Plugin:
        """Install a package (`.difypkg`). Raises `Conflict` if another one has its id."""
        return self._transport.do(plugins.install(package))

    def remove(self, plugin: str) -> None:
        """Remove an installed plugin."""
        self._transport.do(plugins.remove(plugin))

    def options(
        self, plugin: str, provider: str, tool: str, parameter: str, *, app: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the options of a parameter, as the plugin lists them now on a worker."""
        return self._transport.do(plugins.options(plugin, provider, tool, parameter, app))


class Knowledge(Resource):
    """Datasets and their documents; both are found by id or name."""

    def create(self, dataset: DatasetRequest | Mapping[str, Any]) -> Dataset:
        """Create a dataset. Raises `Conflict` if there is one."""
        return self._transport.do(knowledge.create(dataset))

    def all(self) -> list[DatasetSummary]:
        """Return all datasets."""
        return self._transport.do(knowledge.listed())

    def get(self, dataset: str) -> DatasetDetail:
        """Return a dataset with its documents."""
        return self._transport.do(knowledge.show(dataset))

    def remove(self, dataset: str) -> None:
        """Remove a dataset with all its documents."""
        self._transport.do(knowledge.drop(dataset))

    def add_document(self, dataset: str, document: DocumentRequest | Mapping[str, Any]) -> Indexed:
        """Add a document, or replace one. The `run` of the answer indexes it."""
        return self._transport.do(knowledge.add_document(dataset, document))

    def document(self, dataset: str, document: str, *, segments: int | None = None) -> DocumentDetail:
        """Return a document with its first segments."""
        return self._transport.do(knowledge.show_document(dataset, document, segments))

    def remove_document(self, dataset: str, document: str) -> None:
        """Remove a document."""
        self._transport.do(knowledge.drop_document(dataset, document))


class Dead(Resource):
    """Jobs and facts that were given up."""

    def all(self) -> Iterator[DeadLetter]:
        """Return all dead letters, newest first."""
        return self._transport.pages(fleet.dead())

    def get(self, letter: str) -> DeadLetterContent:
        """Return a dead letter with its content."""
        return self._transport.do(fleet.show_dead(letter))

    def retry(self, letter: str) -> Retried:
        """Retry a dead letter. Raises `Conflict` with the reason if that is not possible."""
        return self._transport.do(fleet.retry_dead(letter))

    def retry_all(
        self,
        which: DeadFilter | Mapping[str, Any],
        *,
        dry_run: bool = False,
        before: str | None = None,
        limit: int | None = None,
    ) -> BulkRetry:
        """Retry the dead letters that match, or count them. Repeat it with `before=next` until `next` is `None`."""
        return self._transport.do(fleet.retry_all_dead(which, dry_run, before, limit))

    def remove(self, letter: str) -> None:
        """Remove a dead letter."""
        self._transport.do(fleet.drop_dead(letter))


class Files(Resource):
    """Files for runs, and files that runs have made."""

    def upload(
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
        return self._transport.do(files.upload(source, name, user, app, media_type))

    @staticmethod
    def as_input(file: File | Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
        """Return an upload as a value of inputs; `kind` is `document`, `image`, `audio` or `video`."""
        return files.as_input(file, kind)

    def download(
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
        return self._transport.download(url, None if to is None else Path(to), bytes_max)
