"""Apps, keys, entries, datasets and files on a real fleet."""

from __future__ import annotations

import uuid
from pathlib import Path

import httpx
import pytest

from tidemill.client import AsyncClient, Client, Conflict, InvalidRequest, NotFound
from tidemill.errors import RunFailed

from .conftest import checked
from .flows import GREETING, end, flow, model
from fleet import Fleet, until


def test_an_app_is_published_versioned_and_run(client: Client) -> None:
    app = client.apps.publish(GREETING)
    assert app["key"]
    assert app["key"].startswith("app-")
    newer = client.apps.publish(flow(end("start", "name")), app=app["id"])
    assert (newer["id"], newer["key"]) == (app["id"], None)
    assert [version["is_current"] for version in client.apps.versions(app["id"])] == [True, False]
    assert client.apps.get(app["id"])["version"] == newer["version"]
    with pytest.raises(Conflict, match="version_is_current"):
        client.apps.remove_version(app["id"], newer["version"])
    client.apps.remove_version(app["id"], app["version"])
    assert [version["is_current"] for version in client.apps.versions(app["id"])] == [True]
    assert app["id"] in [known["id"] for known in client.apps.all()]
    assert client.run(app=app["id"], inputs={"name": "x"}).result(60) == {"out": "x"}
    own = str(uuid.uuid4())
    assert client.apps.publish(GREETING, app=own, create=True)["id"] == own
    with pytest.raises(NotFound):
        client.apps.publish(GREETING, app=str(uuid.uuid4()))
    same = [client.apps.publish(GREETING, idempotency_key="once")["id"] for _ in range(2)]
    assert same[0] == same[1]


def test_keys_are_made_limited_and_revoked(client: Client) -> None:
    app = client.apps.publish(GREETING)["id"]
    key = client.apps.add_key(app)
    assert [known["first"] for known in client.apps.keys(app)].count(True) == 1
    budget = client.keys.set_budget(key["id"], {"tokens": 100, "price_per_day": "5.00 EUR"})
    assert budget["tokens"] == 100
    (known,) = [known for known in client.keys.all() if known["id"] == key["id"]]
    assert known["budget"] == budget
    client.keys.remove_budget(key["id"])
    limits = client.keys.set_limits(key["id"], {"runs_max": 3})
    assert limits == {"requests_per_second": None, "runs_max": 3}
    (known,) = [known for known in client.keys.all() if known["id"] == key["id"]]
    assert known["limits"] == {"requests_per_second": None, "runs_max": 3, "runs": 0}
    client.keys.remove_limits(key["id"])
    client.keys.revoke(key["id"])
    client.keys.revoke(key["id"])
    (known,) = [known for known in client.apps.keys(app) if known["id"] == key["id"]]
    assert known["revoked_at"]
    assert known["budget"] is None
    assert client.keys.add_for_datasets()["key"].startswith("dataset-")
    with pytest.raises(NotFound):
        client.keys.revoke("none")


def test_a_key_has_scopes_and_an_end_and_is_replaced(client: Client) -> None:
    app = client.apps.publish(GREETING)["id"]
    key = client.apps.add_key(app, label="the shop", scopes=["read"], expires_in_seconds=3600)
    assert (key["label"], key["scopes"]) == ("the shop", ["read"])
    new = client.keys.rotate(key["id"], overlap_seconds=60)
    assert (new["label"], new["scopes"]) == ("the shop", ["read"])
    ends = {known["id"]: known["expires_at"] for known in client.apps.keys(app)}
    assert (ends[key["id"]] or 0) < (ends[new["id"]] or 0)
    client.keys.rotate(new["id"], overlap_seconds=0)
    with pytest.raises(Conflict):
        client.keys.rotate(new["id"])


def test_entries_of_the_catalog_are_kept(client: Client) -> None:
    client.profiles.put("quick/one", {"name": "quick", "provider": "default", "model": "m"})
    profile = client.profiles.get("quick/one")
    assert profile["model"] == "m"
    with pytest.raises(Conflict) as exists:
        client.profiles.add("quick/one", {"name": "quick", "provider": "default", "model": "m"})
    assert exists.value.code == "already_exists"
    changed = client.profiles.put("quick/one", {**profile, "model": "n"})
    assert changed["version"] > profile["version"]
    with pytest.raises(Conflict) as stale:
        client.profiles.put("quick/one", {**profile, "model": "o"})
    assert stale.value.code == "changed"
    assert [entry["id"] for entry in client.profiles.all()] == ["quick/one"]
    client.profiles.remove("quick/one", force=True)
    with pytest.raises(NotFound):
        client.profiles.get("quick/one")
    for entries in (client.providers, client.library, client.services, client.datasources):
        assert entries.all() == []
    # Workers of other tests may have registered Calls in this fleet; those of the installation are not in the list.
    assert "llm" not in {call["id"] for call in client.calls.all()}
    assert client.calls.get("llm")["id"]


def test_a_dataset_gets_documents(client: Client) -> None:
    name = f"notes-{uuid.uuid4()}"
    dataset = client.knowledge.create({"name": name, "description": "tides"})
    with pytest.raises(Conflict):
        client.knowledge.create({"name": name})
    added = client.knowledge.add_document(name, {"name": "a", "segments": [{"content": "The tide turns."}]})
    client.open(added["run"]).result(60)
    document = client.knowledge.document(name, "a")
    assert document["status"] == "completed"
    assert [segment["content"] for segment in document["content"]] == ["The tide turns."]
    assert [known["id"] for known in client.knowledge.get(name)["documents"]] == [added["document_id"]]
    assert dataset["id"] in [known["id"] for known in client.knowledge.all()]
    client.knowledge.remove_document(name, "a")
    client.knowledge.remove(name)
    with pytest.raises(NotFound):
        client.knowledge.get(name)


def test_an_uploaded_file_is_an_input(client: Client, tmp_path: Path) -> None:
    place = tmp_path / "note.txt"
    place.write_text("ebb and flood", encoding="utf-8")
    stored = client.files.upload(place, user="me")
    assert (stored["name"], stored["size"], stored["mime_type"]) == ("note.txt", 13, "text/plain")
    field = {"variable": "paper", "label": "Paper", "type": "file", "required": True}
    field |= {"allowed_file_types": ["document"], "allowed_file_upload_methods": ["local_file"]}
    reading = flow(end("start", "paper"))
    reading["workflow"]["graph"]["nodes"][0]["data"]["variables"] = [field]
    inputs = {"paper": client.files.as_input(stored, "document")}
    outputs = client.run(reading, inputs, user="me").result(60)
    assert outputs["out"]["filename"] == "note.txt"
    with pytest.raises(InvalidRequest, match="Invalid upload file"):
        client.run(reading, inputs, user="another")
    with place.open("rb") as opened:
        assert client.files.upload(opened)["name"] == "note.txt"
    with pytest.raises(ValueError, match="no url"):
        client.files.download(outputs["out"])


async def test_a_file_is_uploaded_asynchronously(asynchronous: AsyncClient, tmp_path: Path) -> None:
    place = tmp_path / "note.bin"
    place.write_bytes(b"x" * 700_000)
    assert (await asynchronous.files.upload(place))["size"] == 700_000


def test_the_fleet_is_listed(client: Client) -> None:
    (worker,) = client.workers()
    assert worker["queues"] == ["default"]
    assert "default" in [queue["name"] for queue in client.queues()]
    client.triggers()
    assert list(client.dead.all()) == []
    assert client.dead.retry_all({}, dry_run=True) == {
        "matched": 0,
        "retried": [],
        "refused": [],
        "next": None,
    }
    for call in (client.dead.get, client.dead.retry, client.dead.remove):
        with pytest.raises(NotFound):
            call("none")


def test_lists_of_runs_come_in_pages(client: Client) -> None:
    begun = {client.run(GREETING, {"name": str(number)}).id for number in range(103)}
    listed = [run["id"] for run in client.runs()]
    assert len(listed) == len(set(listed))
    assert begun <= set(listed)


def test_what_steps_have_kept_is_shown(client: Client) -> None:
    messages = {"main": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}
    trim = {"id": "cut", "type": "context-processor", "operation": "truncate", "truncate": {"keepLast": 1}}
    run = client.run(flow(trim, end("start", "name")), {"name": "x"}, options={"messages": messages})
    run.result(60)
    whole = run.messages()
    assert [(message["content"], message["visible"]) for message in whole["data"]] == [
        ("one", False),
        ("two", True),
    ]
    first = run.messages(limit=1)
    assert (len(first["data"]), first["next"]) == (1, 1)
    assert run.show()["lists"]["main"]["stored_count"] == 2
    assert run.history()["next"] is None
    assert run.runtime() == {}
    with pytest.raises(NotFound, match="no list of messages"):
        run.messages("other")


def test_a_dead_letter_is_shown_and_retried(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    # The first call hangs until its worker is killed.
    rules.write_text('[{"match": {}, "reply": "late", "delay_ms": 600000}]', encoding="utf-8")
    settings = {"worker": {"listen": "", "deliveries_max": 1, "job_lease_ms": 1000}}
    with Fleet(settings, model=rules) as fleet, httpx.Client(event_hooks={"response": [checked]}) as http:
        client = Client(fleet.url, fleet.key, http=http)
        worker = fleet.worker()
        run = client.run(flow(model("write"), end("llm", "text")))
        until(lambda: any(node["job"] for node in run.show()["nodes"]), "the job of the node")
        until(lambda: run.show()["nodes"][1]["status"] == "running", "the start of the node")
        worker.kill()
        fleet.worker()
        with pytest.raises(RunFailed, match="worker"):
            run.result(60)
        (letter,) = client.dead.all()
        assert (letter["what"], letter["run"], letter["node_id"]) == ("job", run.id, "llm")
        assert client.dead.get(letter["id"])["is_whole"]
        assert client.dead.retry_all({"node": "other"})["matched"] == 0
        retried = client.dead.retry(letter["id"])
        assert retried["retry_of"] == run.id
        client.open(retried["id"]).stop()
        assert list(client.dead.all()) == []
        assert {shown["status"] for shown in client.runs()} <= {"failed", "running", "scheduled", "stopped"}
