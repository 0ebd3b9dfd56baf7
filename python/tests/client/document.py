"""The description of the native API, and the models that are made from it: is an answer what they say?

The models are used in their strictest form: no other fields, no other types. So a field that the server adds, and the
document does not have, fails a test.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import httpx
from pydantic import ConfigDict, TypeAdapter, ValidationError

from tidemill import models

from fleet import ROOT

DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/openapi/native.json").read_text(encoding="utf-8"))
PATHS: dict[str, dict[str, Any]] = DOCUMENT["paths"]
SCHEMAS: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]
BASE = "/api/v1"

#: Operations that the tests have called with success.
called: set[str] = set()

for _name, _schema in SCHEMAS.items():
    if "properties" in _schema:
        is_open = bool(_schema.get("additionalProperties"))
        getattr(models, _name).__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid", strict=True)


@cache
def adapter(schema: str) -> TypeAdapter[Any]:
    """The check of a schema by its name."""
    return TypeAdapter(getattr(models, schema))


def check(schema: str, value: Any) -> None:
    """Fail if a value is not what a schema says."""
    try:
        adapter(schema).validate_python(value)
    except ValidationError as error:
        raise AssertionError(f"{schema} in docs/openapi/native.json does not fit: {error}\n{value}") from error


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The operation of a request, the one with the fewest placeholders first."""
    for template in sorted(PATHS, key=lambda template: template.count("{")):
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in PATHS[template]:
            found: dict[str, Any] = PATHS[template][method.lower()]
            return found
    return None


def check_answer(response: httpx.Response) -> None:
    """Fail if an answer of the native API is not what the document says."""
    raw = response.request.url.raw_path.decode().partition("?")[0]
    if not raw.startswith(BASE + "/"):
        return
    operation = operation_of(response.request.method, raw.removeprefix(BASE))
    assert operation is not None, f"{response.request.method} {raw} is not in docs/openapi/native.json"
    if response.status_code >= 400:
        check("Error", response.json())
        return
    answers: dict[str, Any] = operation["responses"]
    name = operation["operationId"]
    assert str(response.status_code) in answers, f"{name} has no answer {response.status_code} in the document"
    called.add(name)
    schema = answers[str(response.status_code)].get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        assert not response.content, f"{name} has a body, and none in the document"
    elif "$ref" in schema:
        check(schema["$ref"].rpartition("/")[2], response.json())
