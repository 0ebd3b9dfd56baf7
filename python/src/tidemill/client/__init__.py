"""Clients of Tidemill's API: `Client`, and `AsyncClient` for asyncio. They need no native code."""

from __future__ import annotations

from tidemill.client._async.client import AsyncClient
from tidemill.client._async.run import AsyncRemoteRun
from tidemill.client._sync.client import Client
from tidemill.client._sync.run import RemoteRun
from tidemill.client.errors import (
    ApiError,
    BudgetExceeded,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    InvalidRequest,
    InvalidWorkflow,
    NotFound,
    RunOver,
    ServerFailed,
    StreamLost,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnreadableAnswer,
)
from tidemill.client.events import Event
from tidemill.client.retries import Retries

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncRemoteRun",
    "BudgetExceeded",
    "Client",
    "ClientError",
    "Conflict",
    "Event",
    "Forbidden",
    "Gone",
    "InvalidRequest",
    "InvalidWorkflow",
    "NotFound",
    "RemoteRun",
    "Retries",
    "RunOver",
    "ServerFailed",
    "StreamLost",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "UnreadableAnswer",
]
