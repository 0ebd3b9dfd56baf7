"""The description of the native API is true, and the generated files belong to it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from types import ModuleType

import httpx

from .document import BASE, PATHS, SCHEMAS
from fleet import ROOT, Fleet

API = ROOT / "scheduler/src/api"
SCRIPTS = ROOT / "python/scripts"
OF_CATALOG = {"native::catalog::all(": {"get", "post"}, "native::catalog::one(": {"get", "put", "delete"}}


def routes() -> dict[str, set[str]]:
    """The routes of the scheduler below `/api/v1` with their methods, as its source has them."""
    source = (API / "mod.rs").read_text(encoding="utf-8")
    table = source.split("fn native_routes()", 1)[1].split("\n}\n", 1)[0]
    found = {}
    for part in table.split(".route(")[1:]:
        path = re.search(r'"([^"]+)"', part)
        assert path, part
        methods = set(re.findall(r"\b(get|post|put|patch|delete)\(", part))
        for call, own in OF_CATALOG.items():
            methods |= own if call in part else set()
        found[path[1]] = methods
    return found


def parameters() -> dict[str, set[str]]:
    """The query parameters that each route reads, as the source of the scheduler has them."""
    source = (API / "native/parameters.rs").read_text(encoding="utf-8")
    table = source.split("const READ", 1)[1].split("];\n", 1)[0]
    rows = re.findall(r'\(\s*"(/[^"]+)",\s*&\[([^\]]*)\],?\s*\)', table)
    return {path: set(re.findall(r'"(\w+)"', names)) for path, names in rows}


def test_the_document_has_every_route_of_the_scheduler_and_no_other() -> None:
    documented = {path: set(methods) for path, methods in PATHS.items()}
    assert len(documented) > 30
    assert documented == routes()


def test_the_document_has_every_query_parameter_and_no_other() -> None:
    def of_query(path: str) -> set[str]:
        found = (one for method in PATHS[path].values() for one in method.get("parameters", ()))
        return {one["name"] for one in found if one["in"] == "query"}

    documented = {path: of_query(path) for path in PATHS if of_query(path)}
    assert len(documented) > 10
    assert documented == parameters()


def test_the_scheduler_serves_every_documented_operation(fleet: Fleet) -> None:
    for path, methods in PATHS.items():
        for method in methods:
            address = fleet.url + BASE + re.sub(r"[{}]", "", path)
            answer = httpx.request(method, address, headers={"Authorization": f"Bearer {fleet.key}x"})
            # A route asks for the key first. Many wrong ones are slowed down.
            assert answer.status_code in {401, 429}, f"{method} {path}: {answer.text}"


def test_every_schema_is_used_and_every_reference_has_its_schema() -> None:
    text = (ROOT / "docs/openapi/native.json").read_text(encoding="utf-8")
    named = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert named == set(SCHEMAS)


def test_operations_have_different_ids() -> None:
    ids = [operation["operationId"] for methods in PATHS.values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_the_generated_files_are_those_that_their_scripts_make() -> None:
    for script in ("generate_models.py", "generate_async.py"):
        done = subprocess.run(
            [sys.executable, SCRIPTS / script, "--check"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_models_of_another_document_or_changed_by_hand_are_stale() -> None:
    script = load("generate_models")
    text = script.MODELS.read_text(encoding="utf-8")
    assert not script.is_stale(text)
    assert script.is_stale(text + "\n")
    assert script.is_stale(re.sub(r"Document: \w", "Document: -", text))
    assert script.is_stale("")


def test_a_changed_client_makes_the_other_one_stale() -> None:
    script = load("generate_async")
    source = (script.CLIENT / "_sync/run.py").read_text(encoding="utf-8")
    changed = source.replace("def stop(", "def halt(")
    made = script.generated(changed)
    assert made != (script.CLIENT / "_async/run.py").read_text(encoding="utf-8")
    assert "async def halt(" in made
    assert "await self._transport.do(" in made


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
