"""Clients of the fleet that all tests share. Every answer that they get is compared with docs/openapi/native.json."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tidemill.client import AsyncClient, Client

from . import document
from fleet import Fleet


@pytest.fixture(name="client")
def fixture_client(fleet: Fleet) -> Iterator[Client]:
    with httpx.Client(event_hooks={"response": [checked]}) as http:
        yield Client(fleet.url, fleet.key, http=http)


@pytest.fixture(name="asynchronous")
async def fixture_asynchronous(fleet: Fleet) -> AsyncIterator[AsyncClient]:
    async with httpx.AsyncClient(event_hooks={"response": [checked_later]}) as http:
        yield AsyncClient(fleet.url, fleet.key, http=http)


def checked(response: httpx.Response) -> None:
    if not is_stream(response):
        response.read()
        document.check_answer(response)


async def checked_later(response: httpx.Response) -> None:
    if not is_stream(response):
        await response.aread()
        document.check_answer(response)


def is_stream(response: httpx.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")
