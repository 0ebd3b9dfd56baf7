"""The settings of a client: address, key and bounds, read and checked once for both clients."""

from __future__ import annotations

import platform
import re
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

    url: str = field(repr=False)
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
            raise ValueError(f"the address (url, TIDEMILL_URL) must begin with http:// or https://, not {shown(url)!r}")
        # A key that was read from a file often ends with a line.
        key = (key or environment.get("TIDEMILL_ADMIN_KEY") or "").strip()
        if not key:
            raise ValueError("a key is needed: give key=…, or set TIDEMILL_ADMIN_KEY")
        if not all("!" <= sign <= "~" for sign in key):
            # Not by httpx, whose message has the key.
            raise ValueError(
                "the key has characters that no key has: only letters, digits and signs of ASCII, no spaces"
            )
        return cls(
            url,
            key,
            timeout,
            retries=retries or REQUESTS,
            stream_retries=stream_retries or STREAMS,
            frame_bytes_max=frame_bytes_max,
        )

    @property
    def shown(self) -> str:
        """The address for texts."""
        return shown(self.url)

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


def shown(url: str) -> str:
    """An address without the user and the password that it may have."""
    return re.sub(r"//[^/]*@", "//", url)


def _agent() -> str:
    try:
        own = version("tidemill")
    except PackageNotFoundError:
        own = "0"
    return f"tidemill-python/{own} python/{platform.python_version()}"


AGENT = _agent()
