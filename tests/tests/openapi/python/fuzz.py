"""Makes fixtures on a fleet, runs schemathesis over the documents that the fleet serves, and judges the answers.

Given: FUZZ_URL, FUZZ_ADMIN_KEY, FUZZ_APPS (a folder with workflow files), FUZZ_FOLDER (the logs of the fleet; it also
writes there), FUZZ_SECONDS, and if wanted FUZZ_SEED (else the clock gives one, which is printed) and FUZZ_ONLY (a
regular expression of paths). Ends with 1 if a check failed, if a log has an error or says that Redis refused a request,
if operations were not sent, or if too few of the requests went through: then nothing was tested.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
from bodies import bodies

URL, ADMIN = os.environ["FUZZ_URL"], os.environ["FUZZ_ADMIN_KEY"]
APPS, FOLDER = Path(os.environ["FUZZ_APPS"]), Path(os.environ["FUZZ_FOLDER"])
SECONDS = int(os.environ.get("FUZZ_SECONDS", "300"))
SEED = os.environ.get("FUZZ_SEED") or str(int(time.time()))
ONLY = os.environ.get("FUZZ_ONLY", "")
#: The checks. A 500, which no operation has in the document, is an undocumented status.
CHECKS = "status_code_conformance,content_type_conformance,response_schema_conformance"
#: The least share of operations with an answer of 200 to 399, in per cent, if the time is enough for all. Operations
#: that are never served do not count.
OPERATIONS_LEAST = 80
#: The most operations to which no request was sent, if the time is enough for all.
UNSENT_MOST = 5
#: The least share of such answers, in per cent.
ANSWERS_LEAST = 20
#: A run of all operations needs about this time.
SECONDS_FOR_ALL = 120
HEAD = "kind: app\nversion: 0.6.0\n"
HOOK = (
    HEAD
    + """app: {mode: workflow, name: Hook}
workflow:
  graph:
    nodes:
    - {id: hook, data: {type: trigger-webhook, method: METHOD, content_type: application/json, webhook_id: ID}}
    - {id: end, data: {type: end, outputs: []}}
    edges: [{source: hook, target: end}]
"""
)
GREETER = (
    HEAD
    + """app: {mode: workflow, name: Greeter}
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Begin, variables: [{variable: name, label: N, type: paragraph}]}}
    - {id: end, data: {type: end, title: Finish, outputs: [{variable: text, value_selector: [start, name]}]}}
    edges: [{source: start, target: end}]
"""
)


def call(method: str, path: str, key: str = ADMIN, **given: Any) -> Any:
    """The JSON of a request that must succeed."""
    answer = requests.request(method, URL + path, headers={"Authorization": f"Bearer {key}"}, timeout=60, **given)
    if not answer.ok:
        sys.exit(f"a fixture cannot be made: {method} {path}: {answer.status_code} {answer.text}")
    return answer.json() if answer.content else None


def publish(text: str) -> Any:
    return call("POST", "/api/v1/apps", json={"workflow": text})


def settled(dataset: str, document: str, key: str) -> str:
    """Wait until a document is indexed; a request to change its segments waits for that. Returns a segment."""
    segments = f"/v1/datasets/{dataset}/documents/{document}/segments"
    for _ in range(600):
        found = call("GET", segments, key)["data"]
        if found:
            return str(found[0]["id"])
        call("GET", f"/v1/datasets/{dataset}/documents", key)
    sys.exit("a document is not indexed")


def fixtures() -> dict[str, Any]:
    """Make one of everything, and say what it is called."""
    apps = {
        name: publish((APPS / f"{name}.yml").read_text(encoding="utf-8"))
        for name in ("chat", "flow", "completion", "form")
    }
    for method in ("get", "post", "put", "patch", "delete"):
        publish(HOOK.replace("METHOD", method).replace("ID", f"{method:x<24}"))
    keys = {name: app["key"] for name, app in apps.items()}
    datasets = call("POST", "/api/v1/keys", json={"scope": "datasets"})
    keys.update(admin=ADMIN, datasets=datasets["key"])
    chat, flow = keys["chat"], keys["flow"]
    ids = {name: app["id"] for name, app in apps.items()}

    def begin(inputs: dict[str, Any], key: str) -> str:
        body = {"inputs": inputs, "user": "ann", "response_mode": "blocking"}
        return str(call("POST", "/v1/workflows/run", key, json=body)["workflow_run_id"])

    said = call(
        "POST",
        "/v1/chat-messages",
        chat,
        json={"query": "hello", "inputs": {}, "user": "ann", "response_mode": "blocking"},
    )
    completion = call(
        "POST",
        "/v1/completion-messages",
        keys["completion"],
        json={"inputs": {"query": "x"}, "user": "ann", "response_mode": "blocking"},
    )
    done = begin({"text": "x"}, flow)
    paused = [begin({"order": "4711"}, keys["form"]) for _ in range(20)]
    pauses = [(run, one) for run in paused for one in call("GET", f"/api/v1/runs/{run}/pauses")["data"]]
    upload = call(
        "POST", "/v1/files/upload", chat, files={"file": ("a.txt", b"stones", "text/plain")}, data={"user": "ann"}
    )
    note = call("POST", "/v1/apps/annotations", chat, json={"question": "q", "answer": "a"})
    base = call("POST", "/v1/datasets", keys["datasets"], json={"name": "Base", "indexing_technique": "economy"})["id"]
    text = {
        "name": "d",
        "text": "The mill.\n\nIt turns.",
        "indexing_technique": "economy",
        "process_rule": {"mode": "automatic"},
    }
    stored = [
        call("POST", f"/v1/datasets/{base}/document/create-by-text", keys["datasets"], json=text) for _ in range(4)
    ]
    field = call("POST", f"/v1/datasets/{base}/metadata", keys["datasets"], json={"type": "string", "name": "author"})[
        "id"
    ]
    tag = call("POST", "/v1/datasets/tags", keys["datasets"], json={"name": "water"})["id"]
    together = [{"path": "/api/v1/runs/", "id": run, "pause_id": one["pause_id"]} for run, one in pauses]
    for one in stored:
        document = one["document"]["id"]
        segment = settled(base, document, keys["datasets"])
        together.append({"path": "/segments", "dataset": base, "document": document, "segment": segment})
        together.append({"path": "/documents/", "dataset": base, "document": document})
        together.append({"path": "indexing-status", "dataset": base, "document": one["batch"]})
        together.append({"path": "/api/v1/knowledge", "id": base, "document": document})
        spare = {"dataset": base, "document": document, "is_spare": True}
        more = call(
            "POST",
            f"/v1/datasets/{base}/documents/{document}/segments",
            keys["datasets"],
            json={"segments": [{"content": "c"}] * 3},
        )
        together += [{"path": "/segments/", "segment": segment["id"], **spare} for segment in more["data"]]
    for number in range(10):
        document = call("POST", f"/v1/datasets/{base}/document/create-by-text", keys["datasets"], json=text)[
            "document"
        ]["id"]
        place = {"path": "/documents/", "dataset": base} if number % 2 else {"path": "/api/v1/knowledge", "id": base}
        together.append({**place, "document": document, "is_spare": True})
        kind = {"type": "string", "name": f"spare{number}"}
        spare_field = call("POST", f"/v1/datasets/{base}/metadata", keys["datasets"], json=kind)["id"]
        together.append({"path": "/metadata/", "dataset": base, "field": spare_field, "is_spare": True})
        old = call(
            "POST", "/api/v1/apps", json={"workflow": GREETER.replace("Greeter", f"G{number}"), "id": ids["flow"]}
        )
        together.append({"path": "/versions/", "id": ids["flow"], "version": old["version"], "is_spare": True})
    call("POST", "/api/v1/apps", json={"workflow": (APPS / "flow.yml").read_text(encoding="utf-8"), "id": ids["flow"]})
    for name in ("chat", "flow"):
        together.append({"path": "/versions/", "id": ids[name], "version": apps[name]["version"]})
    listed = {"workflow": GREETER, "inputs": {}, "options": {"messages": {"main": [{"role": "user", "content": "hi"}]}}}
    talk = call("POST", "/api/v1/runs", json=listed)["id"]
    together.append({"path": "/messages/", "id": talk, "list": "main"})
    variable = call("GET", f"/v1/conversations/{said['conversation_id']}/variables?user=ann", chat)["data"][0]["id"]
    together.append({"path": "/variables/", "id": said["conversation_id"], "variable": variable})
    together.append({"path": "/metadata/", "dataset": base, "field": field})
    job = call(
        "POST",
        "/v1/apps/annotation-reply/disable",
        chat,
        json={"score_threshold": 0.9, "embedding_provider_name": "", "embedding_model_name": ""},
    )
    together.append({"path": "/annotation-reply/", "action": "disable", "job": job["job_id"]})
    logs = call("GET", "/v1/workflows/logs", flow)["data"]
    end_user = logs[0]["created_by_end_user"]["id"]
    file_name = {"workflow": GREETER}
    call("POST", "/api/v1/providers", json={"id": "acme", "base_url": "https://models.example.com/v1"})
    call("PUT", f"/api/v1/apps/{ids['chat']}/webhook", json={"url": "https://example.invalid/x"})
    snapshot = call("GET", f"/api/v1/runs/{paused[0]}/snapshot")
    link = dict(parse_qsl(urlsplit(upload["source_url"]).query))
    return {
        "keys": keys,
        "ids": {
            "app": [ids["chat"], ids["flow"]],
            "run": [done, paused[-1], talk],
            "flow_run": [done],
            "message": [said["message_id"]],
            "completion": [completion["message_id"]],
            "conversation": [said["conversation_id"]],
            "upload": [upload["id"]],
            "annotation": [note["id"]],
            "dataset": [base],
            "document": [one["document"]["id"] for one in stored],
            "tag": [tag],
            "field": [field],
            "form_token": [one["form_token"] for _, one in pauses],
            "end_user": [end_user],
            "workflow_version": [apps["flow"]["workflow_id"], apps["flow"]["version"]],
            "list": ["main"],
            "key": [datasets["id"], *[app["key_id"] for app in apps.values()]],
        },
        "together": together,
        "link": link,
        "user_operations": [
            *["list_messages", "suggest_questions", "list_conversations", "list_conversation_variables"],
            *["follow_workflow_run", "open_upload"],
        ],
        "app_of": {
            **dict.fromkeys(
                [
                    *["send_message", "list_messages", "list_conversations", "list_feedbacks", "list_annotations"],
                    *["add_annotation", "switch_annotation_reply", "get_annotation_job", "change_annotation"],
                    *["remove_annotation", "rate_message", "suggest_questions", "transcribe", "speak", "open_upload"],
                    "upload_app_file",
                ],
                "chat",
            ),
            "send_completion": "completion",
            "stop_completion": "completion",
            **dict.fromkeys(["run_workflow", "list_workflow_logs", "get_end_user"], "flow"),
        },
        "bodies": bodies(ids, file_name, snapshot),
    }


def fuzz() -> bool:
    """Run schemathesis over all routes. True if no check failed."""
    given = FOLDER / "fixtures.json"
    given.write_text(json.dumps(fixtures()), encoding="utf-8")
    environment = {
        **os.environ,
        "FUZZ_FIXTURES": str(given),
        "FUZZ_TALLY": str(FOLDER / "tally.json"),
        "FUZZ_SEED": SEED,
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    program = Path(sys.executable).parent / "schemathesis"
    options = [
        *[
            "--checks",
            CHECKS,
            "--seed",
            SEED,
            "--max-time",
            str(SECONDS),
            "--workers",
            "1",
            "--phases",
            "examples,coverage,fuzzing",
        ],
        *[
            "--continue-on-failure",
            "--no-shrink",
            "--warnings",
            "off",
            "--request-timeout",
            "60",
            "--suppress-health-check",
            "all",
        ],
        *["--generation-database", "none", "--report", "ndjson", "--report-ndjson-path", str(FOLDER / "report.ndjson")],
    ]
    if ONLY:
        options += ["--include-path-regex", ONLY]
    done = subprocess.run([program, "run", f"{URL}/openapi.json", *options], env=environment, cwd=FOLDER, check=False)
    return done.returncode == 0


def operations() -> dict[str, bool]:
    """All operations that are fuzzed, and whether the document has an answer with 2xx."""
    paths = requests.get(f"{URL}/openapi.json", timeout=60).json()["paths"]
    return {
        operation["operationId"]: any(status.startswith("2") for status in operation["responses"])
        for path, methods in paths.items()
        if re.search(ONLY, path)
        for operation in methods.values()
    }


def judge() -> bool:
    """Print how many requests went through. True if these are enough."""
    written = json.loads((FOLDER / "tally.json").read_text(encoding="utf-8"))
    tally: dict[str, dict[str, int]] = written["answers"]
    total = through = 0
    reached = set()
    for operation, counts in tally.items():
        good = sum(count for status, count in counts.items() if int(status) < 400)
        total, through = total + sum(counts.values()), through + good
        if good:
            reached.add(operation)
    known = operations()
    unsent = sorted(known.keys() - tally.keys())
    served = {name for name, is_served in known.items() if is_served}
    part = 100 * len(served & reached) // max(len(served), 1)
    share = 100 * through // max(total, 1)
    print(f"\n{total} requests to {len(tally)} of {len(known)} operations, with the seed {SEED}")
    print(f"with 2xx or 3xx: {share} % of the answers, {part} % of the {len(served)} operations that are served")
    for operation in sorted(served - reached - set(unsent)):
        counts = dict(sorted(tally[operation].items()))
        print(f"  never: {operation} {counts} {written['refusals'].get(operation, '')}")
    print(f"never sent: {', '.join(unsent) or 'none'}")
    if SECONDS < SECONDS_FOR_ALL:
        return True
    return share >= ANSWERS_LEAST and part >= OPERATIONS_LEAST and len(unsent) <= UNSENT_MOST


def complaints() -> list[str]:
    """The errors in the logs: a fact that is given up, a panic, a request that failed or that Redis refused."""
    lines = [line for log in FOLDER.glob("*.log") for line in log.read_text(encoding="utf-8").splitlines()]
    # A request that Redis refuses is answered with 503, which every operation has in the document.
    wrong = ('"level":"ERROR"', "panicked at", "store does not take the request")
    return [line for line in lines if any(part in line for part in wrong)]


if __name__ == "__main__":
    print(f"FUZZ_SEED={SEED}", flush=True)
    is_good = fuzz()
    is_good = judge() and is_good
    for line in complaints():
        is_good = False
        print(f"in a log: {line[:500]}")
    sys.exit(0 if is_good else 1)
