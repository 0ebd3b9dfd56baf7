"""Decides whether and when a failed request is sent again. All of it is pure: the shells pass in time and chance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from enum import Enum


class Repeat(Enum):
    """How often a request may take effect."""

    ANY = "any"
    """Twice is the same as once: it only reads, or it has a key under which the server counts it once."""
    REFUSED = "refused"
    """Again only if the server refused it, or was never reached."""
    UNSENT = "unsent"
    """Again only if it certainly did nothing: twice would begin two runs."""


class Failure(Enum):
    """The ways in which a request fails that another attempt may mend."""

    UNSENT = "unsent"
    """The server was not reached."""
    LOST = "lost"
    """The connection broke after the request was sent: it may have been done."""
    BUSY = "busy"
    """429: refused before anything was done."""
    UNAVAILABLE = "unavailable"
    """503: the server asks to try again."""
    GATEWAY = "gateway"
    """502 or 504 of a proxy: it may have been done."""


MENDED: dict[Repeat, frozenset[Failure]] = {
    Repeat.ANY: frozenset(Failure),
    Repeat.REFUSED: frozenset({Failure.UNSENT, Failure.BUSY, Failure.UNAVAILABLE}),
    Repeat.UNSENT: frozenset({Failure.UNSENT, Failure.BUSY}),
}
"""Which failures another attempt may mend."""

OF_STATUS = {429: Failure.BUSY, 503: Failure.UNAVAILABLE, 502: Failure.GATEWAY, 504: Failure.GATEWAY}
"""Statuses that are failures of this kind; all others are answers."""


@dataclass(frozen=True)
class Retries:
    """Bounds of the attempts at one request."""

    attempts: int = 8
    """The most attempts, the first included. 1: a failed request is not sent again."""
    seconds: float = 60.0
    """The longest time between them, all together."""
    first: float = 0.2
    """The first pause; each further one is twice as long."""
    longest: float = 5.0
    """The longest pause, unless the server asks for a longer one."""

    def pause(self, attempt: int, waited: float, retry_after: float | None, chance: float) -> float | None:
        """Return the pause after a failed attempt in seconds, or `None` to give up.

        `attempt` counts from 1, `waited` is the sum of the pauses so far, `chance` is from 0 to 1: clients that failed
        together do not come back together.
        """
        if attempt >= self.attempts:
            return None
        usual = min(self.longest, self.first * 2 ** min(attempt - 1, 30)) * (0.5 + chance / 2)
        pause = max(usual, retry_after or 0.0)
        return pause if waited + pause <= self.seconds else None


REQUESTS = Retries()
"""The usual bounds of a request."""


def mends(repeat: Repeat, failure: Failure) -> bool:
    """Return whether another attempt may be made after this failure."""
    return failure in MENDED[repeat]


def retry_after(header: str | None, now: datetime) -> float | None:
    """Read `Retry-After`: seconds, or a date. Return `None` if there is none, or it cannot be read."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - now).total_seconds())
