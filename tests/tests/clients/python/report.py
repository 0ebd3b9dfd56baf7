"""What the scripts of all Python clients share: where the server is, and the report, a line of JSON for each method.
The report is a file, because some clients print."""

import json
import os

V1 = os.environ["TIDEMILL_V1"]
"""The address of `/v1`, without a slash at its end."""
USER = os.environ["TIDEMILL_USER"]
"""The end user, another one for each client."""
PAPER = os.environ["TIDEMILL_PAPER"]
"""The path of a small text file."""
SPEECH = os.environ["TIDEMILL_SPEECH"]
"""The path of a small audio file."""


def key(app):
    """The API key of an app: `chat`, `flow`, `completion` or `form`; or that of the datasets."""
    return os.environ[f"TIDEMILL_KEY_{app.upper()}"]


def works(method, call):
    """Calls a method that must work; an exception says what is wrong. Returns what it returned."""
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001: whatever a client raises is its answer
        say(method, "fails", f"{type(error).__name__}: {error}")
        return None
    say(method, "works")
    return answer


def of_client(method, why, call):
    """Calls a method that fails on Dify, too. `why` says which fault of the client it is."""
    try:
        call()
    except BaseException:  # noqa: BLE001: whatever a client raises is its answer
        say(method, "client", why)
        return
    say(method, "fails", f"it works, though it should not: {why}")


def say(method, result, note=""):
    """Reports one method."""
    line = {"method": method, "result": result, "note": str(note)[:400]}
    with open(os.environ["TIDEMILL_REPORT"], "a", encoding="utf-8") as report:
        report.write(json.dumps(line) + "\n")


def must(condition, what):
    """Fails the method that is being tried unless the condition holds."""
    if not condition:
        raise AssertionError(what)


def ok(response, status=200):
    """The JSON of a response, whose status must be this one."""
    must(response.status_code == status, f"status {response.status_code}: {response.text[:300]}")
    return response.json()


def stops(events, stop):
    """Reads a stream to its end; stops it once, by the task's id in its first event. Returns all events."""
    found = []
    for event in events:
        found.append(event)
        task = event["task_id"] if isinstance(event, dict) else event.task_id
        if len(found) == 1:
            stop(task)
    return found
