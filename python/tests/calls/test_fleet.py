"""Call classes that a Python worker serves are registered Calls of the fleet, beside workers that do not have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calls.greet import Greet, workflow
from tidemill import Client, RunFailed, TidemillError, Worker

from fleet import Fleet, until

SECONDS_MAX = 60


@pytest.fixture(scope="module")
def client(fleet: Fleet) -> Iterator[Client]:
    with Client(fleet.url, fleet.key) as made:
        yield made


@pytest.fixture(scope="module")
def worker(fleet: Fleet, client: Client) -> Iterator[Worker]:
    with_calls = Worker(fleet.redis_url)
    with_calls.calls(Greet)

    def is_known() -> bool:
        return any(shown["usable"] for shown in client.calls.get("Greet")["workers"])

    with with_calls as started:
        # Its record says what it can do; other workers leave jobs to it when they can read that.
        until(is_known, "the record of the worker")
        yield started


@pytest.mark.usefixtures("worker")
def test_the_scheduler_shows_its_texts_and_schemas(client: Client) -> None:
    shown = client.calls.get("Greet")
    assert shown["info"]["en"]["name"] == "Greet"
    assert shown["input_schema"]["required"] == ["who"]
    assert shown["transport"] == {"type": "worker"}


@pytest.mark.usefixtures("worker")
def test_publishing_knows_the_call(client: Client) -> None:
    app = client.apps.publish(workflow("Greet", who="Ada"))
    assert client.run(app=app["id"], inputs={}).result(timeout=SECONDS_MAX)["text"] == "Hello, Ada"


@pytest.mark.usefixtures("worker")
def test_runs_find_the_worker_that_has_it(client: Client) -> None:
    runs = [client.run(workflow("Greet", who=f"Ada {number}")) for number in range(5)]
    assert [run.result(timeout=SECONDS_MAX)["text"] for run in runs] == [f"Hello, Ada {n}" for n in range(5)]


@pytest.mark.usefixtures("worker")
def test_a_call_error_fails_the_run_with_its_text(client: Client) -> None:
    with pytest.raises(RunFailed, match="Ada is not at home"):
        client.run(workflow("Greet", who="Ada", form="error")).result(timeout=SECONDS_MAX)


def test_an_id_of_another_call_is_refused_when_the_worker_starts(fleet: Fleet, client: Client) -> None:
    class Theirs(Greet, call_id="theirs"): ...

    manifest = {
        "info": {"en": {"name": "Theirs", "description": "Runs somewhere else"}},
        "operations": ["init", "exec"],
        "streaming": True,
        "transport": {"type": "http", "url": "https://calls.example/theirs"},
    }
    client.calls.add("theirs", manifest)
    second = Worker(fleet.redis_url)
    second.calls(Theirs)
    with pytest.raises(TidemillError, match="theirs is registered with another transport"):
        second.start()
