"""Sends requests and reads streams. It decides nothing: what follows an answer is said by `Attempts` and `Follow`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from random import random
from typing import TypeVar

import httpx

from tidemill.client.answers import error_of
from tidemill.client.attempts import Attempts, Done
from tidemill.client.errors import ApiError, Unavailable, Unreachable
from tidemill.client.events import Event
from tidemill.client.follow import Follow, Next, Step, left
from tidemill.client.operations import runs
from tidemill.client.request import Operation, Pages, Request
from tidemill.client.settings import LIMITS, Settings
from tidemill.client.store import Store

T = TypeVar("T")


class Transport:
    """A connection pool, with the settings of its client."""

    def __init__(self, settings: Settings, http: httpx.Client | None) -> None:
        self.settings = settings
        self._is_own = http is None
        self._http = http or httpx.Client(timeout=settings.timeout, limits=LIMITS)

    def close(self) -> None:
        """Close the connections, unless the caller made the pool."""
        if self._is_own:
            self._http.close()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def do(self, operation: Operation[T]) -> T:
        """Send a request until it is answered, within the bounds, and return what the answer says."""
        return operation.read(self._send(operation.request))

    def pages(self, pages: Pages[T]) -> Iterator[T]:
        """Return the items of all pages, each page when it is needed."""
        request = pages.page(None)
        while True:
            items, after = pages.read(self._send(request))
            yield from items
            if after is None:
                return
            request = pages.page(after)

    def _send(self, request: Request) -> object:
        attempts = Attempts(request, self.settings.retries)
        while True:
            try:
                answer = self._http.send(self._built(request))
            except httpx.TransportError as error:
                outcome = attempts.broken(error, random())
            else:
                again = attempts.answered(answer.status_code, answer.headers, answer.content, random())
                if isinstance(again, Done):
                    return again.value
                outcome = again
            time.sleep(outcome.pause)

    def _built(self, request: Request, silence: float | None = None) -> httpx.Request:
        """The request with the key; `silence` is the longest wait for its next byte."""
        settings = self.settings
        silence = silence or settings.timeout
        return self._http.build_request(
            request.method,
            settings.address(request.path),
            params=dict(request.query),
            headers=settings.headers(request.headers),
            content=request.content() if request.content else None,
            timeout=httpx.Timeout(min(settings.timeout, silence), read=silence),
        )

    def follow(self, follow: Follow, deadline: float | None = None) -> Iterator[Event]:
        """Return the events of a run over as many connections as it takes.

        After `deadline`, a time of `time.monotonic`, it raises `TimeoutError`.
        """
        while not follow.is_over:
            request = follow.request()
            silence = min(self.settings.silence, left(deadline, follow.run_id))
            try:
                answer = self._http.send(self._built(request, silence), stream=True)
                try:
                    if answer.status_code == 200:
                        for piece in answer.iter_bytes():
                            yield from follow.take(piece)
                            if follow.is_over:
                                return
                            left(deadline, follow.run_id)
                        step = follow.ended(random())
                    else:
                        answer.read()
                        step = self._refused(follow, request, answer)
                finally:
                    answer.close()
            except httpx.TransportError as error:
                left(deadline, follow.run_id)
                step = follow.broken(error, random())
            if step.step is Step.LOOK:
                try:
                    run = self.do(runs.show(follow.run_id))
                except (Unreachable, Unavailable) as error:
                    step = follow.broken(error, random())
                else:
                    step = follow.looked(run["status"], random())
            if step.step is Step.DONE:
                return
            time.sleep(min(step.pause, left(deadline, follow.run_id)))

    def _refused(self, follow: Follow, request: Request, answer: httpx.Response) -> Next:
        now = datetime.now(timezone.utc)
        error = error_of(request, answer.status_code, answer.headers, answer.content, now)
        if not isinstance(error, ApiError):
            raise error
        return follow.refused(error, random())

    def download(self, url: str, to: Path | None, bytes_max: int) -> bytes:
        """Open an address without the key: it may belong to another server. Return the bytes, or store them."""
        with self._http.stream("GET", url, follow_redirects=True) as answer:
            if answer.status_code != 200:
                answer.read()
                now = datetime.now(timezone.utc)
                raise error_of(Request("GET", url), answer.status_code, answer.headers, answer.content, now)
            with Store(to, bytes_max) as store:
                for piece in answer.iter_bytes():
                    store.add(piece)
            return store.bytes()
