"""The settings of a client: address, key and bounds, read and checked once for both clients."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import httpx

from tidemill.client.follow import STREAMS
from tidemill.client.retries import REQUESTS, Retries
from tidemill.client.sse import FRAME_BYTES_MAX

URL = "http://127.0.0.1:8700"
"""Where a scheduler listens unless its settings say otherwise."""

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""Of the pool of a client: each stream holds a connection, so their number has no bound."""


@dataclass(frozen=True)
class Settings:
    """The settings of a client."""

    url: str
    key: str = field(repr=False)
    timeout: float = 30.0
    """Seconds for a connection, and for each wait on it."""
    silence: float = 35.0
    """Seconds without a byte after which the connection of a stream counts as dead. The server pings every ten."""
    retries: Retries = REQUESTS
    stream_retries: Retries = STREAMS
    frame_bytes_max: int = FRAME_BYTES_MAX
    """The largest event that is read, in bytes."""

    @classmethod
    def of(
        cls,
        url: str | None,
        key: str | None,
        environment: Mapping[str, str],
        *,
        timeout: float,
        retries: Retries | None,
        stream_retries: Retries | None,
        frame_bytes_max: int,
    ) -> Settings:
        """Complete what the caller gave from the environment, as the command line does. Raises `ValueError`."""
        url = (url or environment.get("TIDEMILL_URL") or URL).rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the address (url, TIDEMILL_URL) must begin with http:// or https://, not {url!r}")
        key = key or environment.get("TIDEMILL_ADMIN_KEY") or ""
        if not key:
            raise ValueError("a key is needed: give key=…, or set TIDEMILL_ADMIN_KEY")
        return cls(
            url,
            key,
            timeout,
            retries=retries or REQUESTS,
            stream_retries=stream_retries or STREAMS,
            frame_bytes_max=frame_bytes_max,
        )

    def address(self, path: str) -> str:
        """The address of a path below `/api/v1`."""
        return f"{self.url}/api/v1{path}"

    def headers(self, own: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request with the key."""
        return {
            "Accept": "application/json",
            "User-Agent": AGENT,
            "Authorization": f"Bearer {self.key}",
            **own,
        }


def _agent() -> str:
    try:
        own = version("tidemill")
    except PackageNotFoundError:
        own = "0"
    return f"tidemill-python/{own} python/{platform.python_version()}"


AGENT = _agent()
