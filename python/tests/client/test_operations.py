"""Every documented operation has its method, and what the methods send is as documented. Offline."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tidemill.client import AsyncClient, AsyncRemoteRun, Client, RemoteRun, Retries
from tidemill.client._async import resources as asynchronous
from tidemill.client._sync import resources as synchronous

from . import document
from .document import BASE, PATHS

KINDS = {"providers": "provider", "profiles": "profile", "library": "library_node"} | {
    "calls": "call",
    "services": "service",
    "datasources": "datasource",
    "plugin_credentials": "plugin_credential",
}

#: A call of each method by the operation that it sends.
CALLS: dict[str, Callable[[Client], Any]] = {
    "publish_app": lambda client: client.apps.publish("a:\n", app="a", create=True, strict=True),
    "list_apps": lambda client: client.apps.all(),
    "get_app": lambda client: client.apps.get("a"),
    "remove_app": lambda client: client.apps.remove("a", runs="stop"),
    "disable_app": lambda client: client.apps.disable("a"),
    "enable_app": lambda client: client.apps.enable("a"),
    "roll_back_app": lambda client: client.apps.roll_back("a", "v"),
    "remove_user": lambda client: client.apps.remove_user("a", "u"),
    "list_removals": lambda client: client.apps.removals(),
    "list_versions": lambda client: client.apps.versions("a"),
    "remove_version": lambda client: client.apps.remove_version("a", "v"),
    "add_app_key": lambda client: client.apps.add_key("a"),
    "list_app_keys": lambda client: client.apps.keys("a"),
    "set_app_limits": lambda client: client.apps.set_limits("a", {"runs_max": 1}),
    "remove_app_limits": lambda client: client.apps.remove_limits("a"),
    "get_webhook": lambda client: client.apps.webhook("a"),
    "set_webhook": lambda client: client.apps.set_webhook(
        "a", "https://b", events=["ended"], outputs=True, secret="new"
    ),
    "test_webhook": lambda client: client.apps.test_webhook("a"),
    "list_deliveries": lambda client: client.apps.deliveries("a"),
    "remove_webhook": lambda client: client.apps.remove_webhook("a"),
    "list_keys": lambda client: client.keys.all(),
    "add_key": lambda client: client.keys.add_for_datasets(),
    "rotate_key": lambda client: client.keys.rotate("k", overlap_seconds=60),
    "revoke_key": lambda client: client.keys.revoke("k"),
    "set_budget": lambda client: client.keys.set_budget("k", {"tokens": 1, "price": "5.00 EUR"}),
    "remove_budget": lambda client: client.keys.remove_budget("k"),
    "set_key_limits": lambda client: client.keys.set_limits("k", {"requests_per_second": 1}),
    "remove_key_limits": lambda client: client.keys.remove_limits("k"),
    "list_admin_keys": lambda client: client.admin_keys.all(),
    "add_admin_key": lambda client: client.admin_keys.add("on call", "operator", expires_in_seconds=60),
    "rotate_admin_key": lambda client: client.admin_keys.rotate("k", overlap_seconds=60),
    "revoke_admin_key": lambda client: client.admin_keys.revoke("k"),
    "list_audit": lambda client: list(client.audit(since=1.5, before="2-0", who="settings", action="/keys")),
    "list_dead": lambda client: list(client.dead.all()),
    "get_dead": lambda client: client.dead.get("d"),
    "retry_one_dead": lambda client: client.dead.retry("d"),
    "retry_dead": lambda client: client.dead.retry_all({"what": "job"}, dry_run=True, before="d", limit=1),
    "remove_dead": lambda client: client.dead.remove("d"),
    "upload_file": lambda client: client.files.upload(b"x", name="a.txt", user="u", app="a"),
    "create_dataset": lambda client: client.knowledge.create({"name": "d", "indexing_technique": "economy"}),
    "list_datasets": lambda client: client.knowledge.all(),
    "get_dataset": lambda client: client.knowledge.get("d"),
    "remove_dataset": lambda client: client.knowledge.remove("d"),
    "add_document": lambda client: client.knowledge.add_document("d", {"name": "x", "text": "y"}),
    "get_document": lambda client: client.knowledge.document("d", "x", segments=3),
    "remove_document": lambda client: client.knowledge.remove_document("d", "x"),
    "list_plugins": lambda client: client.plugins.all(),
    "get_plugin": lambda client: client.plugins.get("a/b:1"),
    "add_plugin": lambda client: client.plugins.add(b"zip"),
    "list_plugin_options": lambda client: client.plugins.options("a/b:1", "c", "t", "p", app="a"),
    "remove_plugin": lambda client: client.plugins.remove("a/b:1"),
    "list_workers": lambda client: client.workers(),
    "list_queues": lambda client: client.queues(),
    "list_shards": lambda client: client.shards(),
    "raise_shards": lambda client: client.raise_shards(4),
    "list_triggers": lambda client: client.triggers(),
    "submit_run": lambda client: client.run(
        app="a",
        inputs={"a": 1},
        query="q",
        files=[{"transfer_method": "remote_url", "url": "https://a/b"}],
        user="u",
        sys={},
        conversation={},
        conversation_id="c",
        memory=[{"query": "q", "answer": "a"}],
        root="n",
        commands=[{"after": "n", "command": "pause"}],
        options={"max_steps": 1, "template_undefined": "strict"},
        config={"tenant_id": "t"},
        call_depth=1,
        labels={"ticket": "4711"},
    ),
    "list_runs": lambda client: list(client.runs(status="failed", label="ticket=4711")),
    "import_run": lambda client: client.resume(
        {"tidemill_snapshot": 1, "run_id": "r", "version": "v", "workflow": "w"}
    ),
    "get_run": lambda client: client.open("r").show(values=True),
    "command_run": lambda client: client.open("r").update({"a.b": 1}),
    "list_pauses": lambda client: client.open("r").pauses(),
    "answer_pause": lambda client: client.open("r").answer("p", {"input": 1, "answered_by": "me"}),
    "export_run": lambda client: client.open("r").snapshot(),
    "get_messages": lambda client: client.open("r").messages("main", start=5, limit=6),
    "get_runtime": lambda client: client.open("r").runtime(),
    "get_history": lambda client: client.open("r").history(start=5, limit=6, view="se", errors=True),
    "follow_run": lambda client: list(client.open("r").events(live=False)),
}
for _many, _one in KINDS.items():
    CALLS |= {
        f"list_{_many}": lambda client, many=_many: getattr(client, many).all(),
        f"add_{_one}": lambda client, many=_many: getattr(client, many).add("x", {"base_url": "http://a"}),
        f"get_{_one}": lambda client, many=_many: getattr(client, many).get("x"),
        f"put_{_one}": lambda client, many=_many: getattr(client, many).put("x", {"base_url": "http://a"}),
        f"remove_{_one}": lambda client, many=_many: getattr(client, many).remove("x", force=True),
    }

COMMANDS: list[Callable[[RemoteRun], None]] = [
    lambda run: run.stop("because"),
    lambda run: run.pause(),
    lambda run: run.resume(key="k"),
    lambda run: run.update({"a.b": [1]}),
]
ANSWER = {"id": "r", "status": "running", "version": "v", "data": [], "options": [], "next": None}


def sent(call: Callable[[Client], Any]) -> httpx.Request:
    """The request that a method sends."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        request.read()
        seen.append(request)
        return httpx.Response(200, json=ANSWER)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        call(Client("http://server", "key", http=http, retries=Retries(attempts=1)))
    (request,) = seen
    return request


def operation_of(request: httpx.Request) -> dict[str, Any]:
    path = request.url.raw_path.decode().partition("?")[0]
    operation = document.operation_of(request.method, path.removeprefix(BASE))
    assert operation, path
    return operation


@pytest.mark.parametrize("name", CALLS)
def test_a_method_sends_its_operation_as_documented(name: str) -> None:
    request = sent(CALLS[name])
    operation = operation_of(request)
    assert operation["operationId"] == name
    parameters = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
    assert set(dict(request.url.params)) <= {one["name"] for one in parameters}
    assert {one["name"] for one in parameters if one["required"]} <= set(dict(request.url.params))
    body = operation.get("requestBody")
    assert bool(body) == bool(request.content)
    schema = (body or {}).get("content", {}).get("application/json", {}).get("schema")
    if schema:
        assert request.headers["content-type"] == "application/json"
        document.check(schema["$ref"].rpartition("/")[2], json.loads(request.content))


def test_every_documented_operation_has_a_method() -> None:
    documented = {operation["operationId"] for methods in PATHS.values() for operation in methods.values()}
    assert set(CALLS) == documented


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_as_documented(command: Callable[[RemoteRun], None]) -> None:
    request = sent(lambda client: command(client.open("r")))
    document.check("CommandRequest", json.loads(request.content))


def pairs() -> Iterator[tuple[type, type]]:
    yield Client, AsyncClient
    yield RemoteRun, AsyncRemoteRun
    for name, kind in vars(synchronous).items():
        if inspect.isclass(kind) and issubclass(kind, synchronous.Resource):
            yield kind, getattr(asynchronous, f"Async{name}")


@pytest.mark.parametrize(("one", "other"), list(pairs()))
def test_both_clients_have_the_same_methods_with_the_same_parameters(one: type, other: type) -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        own = {name: method for name, method in inspect.getmembers(kind, callable) if not name.startswith("_")}
        return {name: list(inspect.signature(method).parameters) for name, method in own.items()}

    assert methods(one) == methods(other)
    assert len(methods(one)) >= 1 or one is synchronous.Resource
