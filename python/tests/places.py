"""Two places where a run may be: the embedded engine, and a fleet with a worker in Python. One test tries both."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx

from tidemill import Engine, Run, Worker

from fleet import Fleet


class Told(NamedTuple):
    """An event, wherever it comes from."""

    type: str
    data: Mapping[str, Any]
    seq: int


class InEngine:
    """The embedded engine."""

    def __init__(self, fleet: Fleet | None = None) -> None:
        self.host = Engine()
        self._runs: dict[str, Run] = {}

    def start(self) -> None:
        self.host.start()

    def submit(self, workflow: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
        run = self.host.run(workflow, inputs)
        self._runs[run.id] = run
        return run.id

    def events(self, run: str) -> Iterator[Told]:
        for event in self._runs[run]:
            yield Told(event.type, event.data, event.seq)

    def show(self, run: str) -> Mapping[str, Any]:
        return self._runs[run].show()

    def stop(self, run: str, reason: str) -> None:
        self._runs[run].stop(reason)

    def close(self) -> None:
        self.host.close()


class InFleet:
    """A scheduler and Redis, with a worker in this process."""

    def __init__(self, fleet: Fleet) -> None:
        self.host = Worker(settings=fleet.config, threads=8)
        self._http = httpx.Client(
            base_url=fleet.url, headers={"Authorization": f"Bearer {fleet.key}"}, timeout=60.0, trust_env=False
        )

    def start(self) -> None:
        self.host.start()

    def submit(self, workflow: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
        body = {"workflow": json.dumps(workflow), "inputs": inputs}
        answer = self._http.post("/api/v1/runs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def events(self, run: str) -> Iterator[Told]:
        with self._http.stream("GET", f"/api/v1/runs/{run}/events") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    yield Told(event["type"], event["data"], event["seq"])

    def show(self, run: str) -> Mapping[str, Any]:
        shown: Mapping[str, Any] = self._http.get(f"/api/v1/runs/{run}").json()
        return shown

    def stop(self, run: str, reason: str) -> None:
        answer = self._http.post(f"/api/v1/runs/{run}/commands", json={"command": "stop", "reason": reason})
        assert answer.status_code == 202, answer.text

    def close(self) -> None:
        self.host.stop(grace=0.0)
        self._http.close()


Place = InEngine | InFleet


def in_threads(count: int, work: Callable[[int], None], seconds: float = 90.0) -> None:
    """Does this on so many threads at once, and fails if one fails or does not end."""
    problems: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), f"a thread has not ended within {seconds} s"
    if problems:
        raise problems[0]
