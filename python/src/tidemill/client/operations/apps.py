"""Apps and the keys that open them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill._workflow import Workflow, text_of
from tidemill.client.request import Operation, data, get, given, new_key, nothing, remove, send, whole
from tidemill.client.retries import Repeat

if TYPE_CHECKING:
    from tidemill.models import (
        AdminKey,
        App,
        AppVersion,
        Budget,
        CreatedAdminKey,
        CreatedKey,
        Deliveries,
        Key,
        Limits,
        PublishedApp,
        Removal,
        Webhook,
        WebhookTest,
    )


def publish(
    workflow: Workflow, app: str | None, create: bool, strict: bool, idempotency_key: str | None
) -> Operation[PublishedApp]:
    """Publish a workflow. A new app has an idempotency key, so that a repeated request makes no second one."""
    body = given(id=app, workflow=text_of(workflow))
    query = {name: "true" for name, value in (("create", create), ("strict", strict)) if value}
    headers = {} if app else {"Idempotency-Key": idempotency_key or new_key()}
    return send("POST", whole, "apps", body=body, query=query, headers=headers, repeat=Repeat.ANY)


def listed() -> Operation[list[App]]:
    """List all apps."""
    return get(data, "apps")


def show(app: str) -> Operation[App]:
    """Show an app."""
    return get(whole, "apps", app)


def switch(app: str, verb: str) -> Operation[App]:
    """Switch an app off or on."""
    return send("POST", whole, "apps", app, verb, repeat=Repeat.ANY)


def roll_back(app: str, version: str) -> Operation[PublishedApp]:
    """Make an earlier version of an app the current one."""
    return send("POST", whole, "apps", app, "rollback", body={"version": version}, repeat=Repeat.ANY)


def remove_app(app: str, runs: str | None) -> Operation[Removal]:
    """Begin to remove an app."""
    return send("DELETE", whole, "apps", app, query=given(runs=runs), repeat=Repeat.ANY)


def remove_user(app: str, user: str) -> Operation[Removal]:
    """Begin to remove a user of an app."""
    return send("DELETE", whole, "apps", app, "users", user, repeat=Repeat.ANY)


def removals() -> Operation[list[Removal]]:
    """List the removals that are under way."""
    return get(data, "removals")


def versions(app: str) -> Operation[list[AppVersion]]:
    """List the versions of an app, newest first."""
    return get(data, "apps", app, "versions")


def remove_version(app: str, version: str) -> Operation[None]:
    """Remove a version of an app."""
    return remove("apps", app, "versions", version)


def keys(app: str | None) -> Operation[list[Key]]:
    """List the keys of an app, or all keys."""
    return get(data, "keys") if app is None else get(data, "apps", app, "keys")


def add_key(
    app: str, label: str | None, scopes: Sequence[str] | None, expires_in_seconds: int | None
) -> Operation[CreatedKey]:
    """Add a key to an app."""
    listed = None if scopes is None else list(scopes)
    body = given(label=label, scopes=listed, expires_in_seconds=expires_in_seconds)
    return send("POST", whole, "apps", app, "keys", body=body)


def add_datasets_key(label: str | None, expires_in_seconds: int | None) -> Operation[CreatedKey]:
    """Make a key that opens all datasets and no app."""
    body = given(scope="datasets", label=label, expires_in_seconds=expires_in_seconds)
    return send("POST", whole, "keys", body=body)


def rotate(key: str, overlap_seconds: int | None) -> Operation[CreatedKey]:
    """Replace a key."""
    return send("POST", whole, "keys", key, "rotate", body=given(overlap_seconds=overlap_seconds))


def revoke(key: str) -> Operation[None]:
    """Revoke a key. Repeated it is no error."""
    return send("DELETE", nothing, "keys", key, repeat=Repeat.ANY)


def set_budget(key: str, budget: Budget | Mapping[str, Any]) -> Operation[Budget]:
    """Set the budget of a key; an absent field has no limit."""
    return send("PUT", whole, "keys", key, "budget", body=dict(budget), repeat=Repeat.ANY)


def remove_budget(key: str) -> Operation[None]:
    """Remove the budget of a key."""
    return remove("keys", key, "budget")


def set_limits(of: str, name: str, limits: Limits | Mapping[str, Any]) -> Operation[Limits]:
    """Set the limits of an app or a key; `of` is `apps` or `keys`."""
    return send("PUT", whole, of, name, "limits", body=dict(limits), repeat=Repeat.ANY)


def remove_limits(of: str, name: str) -> Operation[None]:
    """Remove the limits of an app or a key."""
    return remove(of, name, "limits")


def admin_keys() -> Operation[list[AdminKey]]:
    """List all admin keys."""
    return get(data, "admin-keys")


def add_admin_key(label: str, role: str, expires_in_seconds: int | None) -> Operation[CreatedAdminKey]:
    """Make an admin key with a role."""
    body = given(label=label, role=role, expires_in_seconds=expires_in_seconds)
    return send("POST", whole, "admin-keys", body=body)


def rotate_admin_key(key: str, overlap_seconds: int | None) -> Operation[CreatedAdminKey]:
    """Replace an admin key."""
    return send("POST", whole, "admin-keys", key, "rotate", body=given(overlap_seconds=overlap_seconds))


def revoke_admin_key(key: str) -> Operation[None]:
    """Revoke an admin key. Repeated it is no error."""
    return send("DELETE", nothing, "admin-keys", key, repeat=Repeat.ANY)


def webhook(app: str) -> Operation[Webhook]:
    """Show the webhook of an app."""
    return get(whole, "apps", app, "webhook")


def set_webhook(
    app: str, url: str, events: Sequence[str] | None, outputs: bool, secret: str | None
) -> Operation[Webhook]:
    """Set the webhook of an app."""
    body = given(
        url=url,
        events=None if events is None else list(events),
        include=["outputs"] if outputs else None,
        secret=secret,
    )
    # Another try of a request that made a secret would show none.
    return send("PUT", whole, "apps", app, "webhook", body=body)


def test_webhook(app: str) -> Operation[WebhookTest]:
    """Send a test to the webhook of an app."""
    return send("POST", whole, "apps", app, "webhook", "test")


def deliveries(app: str) -> Operation[Deliveries]:
    """List the notices that wait or were given up."""
    return get(whole, "apps", app, "webhook", "deliveries")


def remove_webhook(app: str) -> Operation[None]:
    """Remove the webhook of an app."""
    return send("DELETE", nothing, "apps", app, "webhook", repeat=Repeat.ANY)
