"""The attempts at one request: says after each whether there is another, or what the result is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import httpx

from tidemill.client.answers import error_of, value_of
from tidemill.client.errors import ApiError, Unreachable, UnreadableAnswer
from tidemill.client.request import Request
from tidemill.client.retries import OF_STATUS, Failure, Retries, mends


@dataclass(frozen=True)
class Again:
    """Another attempt follows after a pause, in seconds."""

    pause: float


@dataclass(frozen=True)
class Done:
    """The answer."""

    value: Any


class Attempts:
    """The attempts at one request so far."""

    def __init__(self, request: Request, retries: Retries) -> None:
        self._request = request
        self._retries = retries
        self._count = 0
        self._waited = 0.0

    def answered(self, status: int, headers: Mapping[str, str], body: bytes, chance: float) -> Done | Again:
        """Decide after an answer. Raises the error that it means."""
        if 200 <= status < 300:
            return Done(value_of(self._request, status, body))
        error = error_of(self._request, status, headers, body, datetime.now(timezone.utc))
        after = error.retry_after if isinstance(error, ApiError) else None
        pause = self._pause(OF_STATUS.get(status), after, chance)
        if pause is None:
            raise error
        return Again(pause)

    def broken(self, error: httpx.RequestError, chance: float) -> Again:
        """Decide after an attempt without an answer. Raises `Unreachable`, and `UnreadableAnswer` for a broken one."""
        if not isinstance(error, httpx.TransportError):
            raise unreadable(self._request, error) from error
        failure = failure_of(error)
        pause = self._pause(failure, None, chance)
        if pause is None:
            tries = "1 attempt" if self._count == 1 else f"{self._count} attempts"
            raise Unreachable(
                f"{self._request.name}: no answer after {tries}: {described(error)}",
                may_have_happened=failure is not Failure.UNSENT,
                attempts=self._count,
            ) from error
        return Again(pause)

    def _pause(self, failure: Failure | None, retry_after: float | None, chance: float) -> float | None:
        self._count += 1
        if failure is None or not mends(self._request.repeat, failure):
            return None
        pause = self._retries.pause(self._count, self._waited, retry_after, chance)
        self._waited += pause or 0.0
        return pause


def unreadable(request: Request, error: httpx.RequestError) -> UnreadableAnswer:
    """The error for an answer that httpx cannot read: in another encoding than it says, or redirected in a circle."""
    return UnreadableAnswer(f"{request.name}: {described(error)}")


def lost_download(url: str, error: httpx.RequestError) -> Unreachable | UnreadableAnswer:
    """The error for a file that could not be opened or read to its end. Its address may be signed: the query is cut."""
    what = f"GET {url.partition('?')[0]}: {described(error)}"
    if isinstance(error, httpx.TransportError):
        return Unreachable(what, may_have_happened=failure_of(error) is not Failure.UNSENT, attempts=1)
    return UnreadableAnswer(what)


def described(error: httpx.RequestError) -> str:
    """Class and text of an error of the connection."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def failure_of(error: httpx.TransportError) -> Failure:
    """Return whether the request may have reached the server."""
    is_unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError))
    return Failure.UNSENT if is_unsent else Failure.LOST
