"""Hooks of schemathesis: requests that name things which exist, with the right key, often with a body that fits.

Random ids and bodies alone would be refused: the server would be tested no deeper than its first check. So half of the
requests get ids of the fixtures (FUZZ_FIXTURES) or of what earlier requests have made, and a known good body, of which
one field may then be changed. The others stay as schemathesis has made them.

The number of answers by operation and status is written to FUZZ_TALLY at the end.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import schemathesis

FIXTURES: dict[str, Any] = json.loads(Path(os.environ["FUZZ_FIXTURES"]).read_text(encoding="utf-8"))
TALLY = Path(os.environ["FUZZ_TALLY"])
DICE = random.Random(int(os.environ.get("FUZZ_SEED", "1")))
LOCK = threading.Lock()

#: Ids by kind. Those that a fixture needs are in FIXTURES only, so that no request removes them.
KNOWN: dict[str, list[Any]] = defaultdict(list)
#: Answers by operation and status.
ANSWERS: dict[str, Counter[int]] = defaultdict(Counter)
#: The ids of things that other requests need.
PROTECTED = {one for ids in FIXTURES["ids"].values() for one in ids}
#: The cases with a good body, and the last refusal of one, by operation.
PLAIN: set[str] = set()
REFUSALS: dict[str, str] = {}
#: Values that break careless readers.
ODD: list[Any] = [
    None,
    "",
    "\u0000",
    "ä" * 300,
    -1,
    0,
    2**63,
    1e300,
    True,
    [],
    {},
    [None],
    {"": None},
    "{{#sys.query#}}",
    "../../x",
    "0",
]

#: The kind of an id by the beginning of the path; the longest fits.
KINDS = {
    "/api/v1/apps/": "app",
    "/api/v1/admin-keys/": "admin_key",
    "/api/v1/keys/": "key",
    "/api/v1/dead/": "dead",
    "/api/v1/knowledge/": "dataset",
    "/api/v1/runs/": "run",
    "/api/v1/providers/": "provider",
    "/api/v1/profiles/": "profile",
    "/api/v1/library/": "library",
    "/api/v1/calls/": "call",
    "/api/v1/services/": "service",
    "/api/v1/datasources/": "datasource",
    "/v1/apps/annotations/": "annotation",
    "/v1/chat-messages/": "message",
    "/v1/completion-messages/": "completion",
    "/v1/messages/": "message",
    "/v1/conversations/": "conversation",
    "/v1/files/": "upload",
    "/v1/end-users/": "end_user",
    "/v1/workflows/": "workflow_version",
    "/v1/workflows/run/": "flow_run",
    "/v1/workflows/tasks/": "flow_run",
    "/v1/workflow/": "flow_run",
    "/files/": "upload",
}
#: The kind of an id by the name of its parameter.
NAMED = {
    "version": "version",
    "pause_id": "pause",
    "list": "list",
    "dataset": "dataset",
    "document": "document",
    "segment": "segment",
    "field": "field",
    "variable": "variable",
    "token": "form_token",
    "job": "job",
}
#: What an answer to these operations has made: the kind, and where its id is.
MADE = {
    "publish_app": ("app", "id"),
    "add_admin_key": ("admin_key", "id"),
    "add_key": ("key", "id"),
    "add_app_key": ("key", "id"),
    "create_dataset": ("dataset", "id"),
    "create_knowledge_base": ("dataset", "id"),
    "submit_run": ("run", "id"),
    "import_run": ("run", "id"),
    "add_provider": ("provider", "id"),
    "add_profile": ("profile", "id"),
    "add_library_node": ("library", "id"),
    "add_call": ("call", "id"),
    "add_service": ("service", "id"),
    "add_datasource": ("datasource", "id"),
    "send_message": ("message", "message_id"),
    "send_completion": ("completion", "message_id"),
    "run_workflow": ("flow_run", "workflow_run_id"),
    "upload_app_file": ("upload", "id"),
    "add_annotation": ("annotation", "id"),
    "switch_annotation_reply": ("job", "job_id"),
    "create_tag": ("tag", "id"),
    "create_metadata_field": ("field", "id"),
}
ENTRIES = {"provider", "profile", "library", "call", "service", "datasource"}
#: Operations that need the key of one of the apps; the others take any.
APPS = {
    "message": "chat",
    "completion": "completion",
    "conversation": "chat",
    "flow_run": "flow",
    "workflow_version": "flow",
    "form_token": "form",
}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Give a request its key, and half of them ids and a body that fit."""
    del context, kwargs
    path, operation = case.operation.path, case.operation.definition.raw["operationId"]
    kinds = [kind_of(path, name) for name in case.path_parameters or {}]
    with LOCK:
        is_helped = DICE.random() < 0.75
        case.headers = dict(case.headers or {})
        case.headers["Authorization"] = f"Bearer {key(path, operation, kinds)}"
        if is_helped and case.path_parameters:
            case.path_parameters = {**case.path_parameters, **ids(case, path)}
        good = FIXTURES["bodies"].get(operation)
        if is_helped and good and DICE.random() < 0.7:
            case.media_type = "application/json"
            case.body, is_plain = changed(filled(DICE.choice(good)))
            if is_plain:
                PLAIN.add(case.id)
        if is_helped:
            query = dict(case.query or {}) if DICE.random() < 0.4 else {}
            if operation == "open_link_of_upload":
                query = dict(FIXTURES["link"])
            if "user" in query or operation in FIXTURES["user_operations"]:
                query["user"] = "ann"
            if operation == "list_messages":
                query["conversation_id"] = pick("conversation")
            if operation == "upload_file":
                query["name"] = "a.txt"
            case.query = query
    bound(case, operation)


def bound(case: Any, operation: str) -> None:
    """Keep a request from lasting, or from making the fleet large."""
    if operation == "follow_run" and DICE.random() < 0.95:
        case.query = {**(case.query or {}), "follow": "false"}
    if operation == "follow_workflow_run" and case.query:
        case.query.pop("continue_on_pause", None)
    last = next(reversed(case.path_parameters), None) if case.path_parameters else None
    is_end = case.operation.method.upper() == "DELETE" or case.operation.path.endswith(("/rotate", "/budget"))
    # Schemathesis, too, takes ids from answers.
    if last and is_end and case.path_parameters[last] in PROTECTED:
        case.path_parameters[last] = "gone"
    if operation == "raise_shards" and isinstance(case.body, dict):
        for name, value in list(case.body.items()):
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 8:
                case.body[name] = 8


def key(path: str, operation: str, kinds: list[str]) -> str:
    """The key of a request. One in fifty has a wrong one."""
    keys: dict[str, str] = FIXTURES["keys"]
    if DICE.random() < 0.02:
        return DICE.choice(["app-wrong", "admin-wrong", "", keys["chat"], keys["datasets"]])
    if path.startswith(("/v1/datasets", "/v1/workspaces")):
        return keys["datasets"]
    if path.startswith("/v1/"):
        wanted = FIXTURES["app_of"].get(operation) or next((APPS[kind] for kind in kinds if kind in APPS), None)
        return keys[wanted or DICE.choice(["chat", "flow", "completion", "form"])]
    return keys["admin"]


def kind_of(path: str, name: str) -> str:
    """The kind of a parameter."""
    if name in NAMED:
        return NAMED[name]
    fits = [prefix for prefix in KINDS if path.startswith(prefix)]
    return KINDS[max(fits, key=len)] if fits else "none"


def pick(kind: str, *, made: bool = False) -> Any:
    """An id of a kind: one that a request has made, or of the fixtures."""
    all_ids = [*KNOWN[kind], *([] if made else FIXTURES["ids"].get(kind, []))]
    return DICE.choice(all_ids) if all_ids else None


def ids(case: Any, path: str) -> dict[str, Any]:
    """Ids for the parameters of a path. Some belong together."""
    names = list(case.path_parameters)
    sets = [one for one in FIXTURES["together"] if set(names) <= set(one) and one["path"] in path]
    is_removal = case.operation.method.upper() == "DELETE" or path.endswith(("/rotate", "/budget", "/stop"))
    if is_removal:
        spare = [one for one in sets if one.get("is_spare")]
        if spare and DICE.random() < 0.5:
            FIXTURES["together"].remove(spare[0])
            return {name: spare[0][name] for name in names}
    sets = [one for one in sets if not one.get("is_spare")]
    if sets and not (is_removal and DICE.random() < 0.9):
        one = DICE.choice(sets)
        return {name: one[name] for name in names}
    found = {}
    for name in names:
        given = pick(kind_of(path, name), made=is_removal)
        if path.startswith("/triggers/webhook/"):
            given = f"{case.operation.method.lower():x<24}"
        if given is not None and not isinstance(given, dict):
            found[name] = given
    return found


def filled(body: Any) -> Any:
    """A copy of a body; texts such as `$dataset` become ids."""
    if isinstance(body, dict):
        return {name: filled(value) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value) for value in body]
    if isinstance(body, str) and body.startswith("$"):
        if body == "$new":
            return f"x{DICE.randrange(10**9)}"
        return pick(body[1:]) or body
    return body


def changed(body: Any) -> tuple[Any, bool]:
    """The body, of which one in three has one odd or missing field, and whether it is unchanged."""
    if not isinstance(body, dict) or not body or DICE.random() > 0.35:
        return body, True
    place = body
    while True:
        name = DICE.choice(list(place))
        inner = place[name]
        if isinstance(inner, dict) and inner and DICE.random() < 0.5:
            place = inner
            continue
        break
    if DICE.random() < 0.3:
        del place[name]
    else:
        place[name] = DICE.choice(ODD)
    return body, False


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Count an answer, and keep the id of what was made."""
    del context
    operation = case.operation.definition.raw["operationId"]
    with LOCK:
        ANSWERS[operation][response.status_code] += 1
        if response.status_code >= 400 and (case.id in PLAIN or operation not in FIXTURES["bodies"]):
            REFUSALS[operation] = response.text[:200]
        if operation not in MADE or not 200 <= response.status_code < 300:
            return
        kind, field = MADE[operation]
        try:
            made = response.json()[field]
        except (ValueError, KeyError, TypeError):
            return
        if isinstance(made, str):
            KNOWN[kind].append(made)
            del KNOWN[kind][:-50]


@atexit.register
def write() -> None:
    """Write the numbers of answers."""
    answers = {name: dict(counts) for name, counts in sorted(ANSWERS.items())}
    TALLY.write_text(json.dumps({"answers": answers, "refusals": REFUSALS}), encoding="utf-8")
