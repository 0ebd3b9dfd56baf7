"""Reads the answers of the server. Pure: a status, headers and bytes become a value or an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from tidemill.client.errors import ApiError, ClientError, UnreadableAnswer, class_of
from tidemill.client.request import Operation, Request
from tidemill.client.retries import retry_after

T = TypeVar("T")

SHOWN_CHARS = 200
"""The most characters of a foreign answer that a message repeats."""


def value_of(request: Request, status: int, body: bytes) -> Any:
    """Return the value in the body of a success; `None` when it has no body. Raises `UnreadableAnswer`."""
    if status == 204 or not body:
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise UnreadableAnswer(f"{request.name}: {foreign(status, body)}") from error


def read_of(operation: Operation[T], answer: Any) -> T:
    """Return what an operation wants of an answer. Raises `UnreadableAnswer` for one of another shape."""
    try:
        return operation.read(answer)
    except (KeyError, TypeError) as error:
        what = f"the answer has not the form of Tidemill's API ({type(error).__name__}: {error})"
        raise UnreadableAnswer(f"{operation.request.name}: {what}") from error


def error_of(request: Request, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> ClientError:
    """Return the error that an answer with another status than 2xx means."""
    details: dict[str, Any]
    try:
        details = json.loads(body)
        code, message = str(details["code"]), str(details["message"])
    except (ValueError, KeyError, TypeError):
        if status < 400:
            return UnreadableAnswer(f"{request.name}: {foreign(status, body)}")
        # A proxy has its own bodies, and its statuses mean the same.
        details, code, message = {}, "unknown", foreign(status, body)
    wait = retry_after(headers.get("retry-after"), now)
    kind: type[ApiError] = class_of(status, code)
    return kind(status, code, message, details=details, retry_after=wait, request=request.name)


def foreign(status: int, body: bytes) -> str:
    """Describe an answer that is not one of this API."""
    text = " ".join(body[: SHOWN_CHARS * 4].decode("utf-8", "replace").split())[:SHOWN_CHARS]
    return f"the answer is not one of Tidemill's API (status {status}): {text or 'no body'}"
