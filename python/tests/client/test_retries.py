"""Decisions about another attempt."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tidemill.client.retries import Failure, Repeat, Retries, mends, retry_after

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("attempt", "waited", "asked", "chance", "pause"),
    [
        (1, 0.0, None, 1.0, 1.0),
        (1, 0.0, None, 0.0, 0.5),
        (2, 1.0, None, 1.0, 2.0),
        (3, 3.0, None, 1.0, 4.0),
        # The longest pause, and a longer one that the server asks for.
        (4, 3.0, None, 1.0, 4.0),
        (1, 0.0, 6.0, 1.0, 6.0),
        (1, 0.0, 0.1, 1.0, 1.0),
        # The bounds: attempts, and seconds in all.
        (5, 0.0, None, 1.0, None),
        (2, 9.0, None, 1.0, None),
        (1, 0.0, 11.0, 1.0, None),
        (10_000, 0.0, None, 1.0, None),
    ],
)
def test_a_pause_doubles_within_its_bounds(
    attempt: int, waited: float, asked: float | None, chance: float, pause: float | None
) -> None:
    policy = Retries(attempts=5, seconds=10.0, first=1.0, longest=4.0)
    assert policy.pause(attempt, waited, asked, chance) == pause


def test_a_high_attempt_overflows_nothing() -> None:
    assert Retries(attempts=10**9, seconds=1e9).pause(10**6, 0.0, None, 1.0) == 5.0


@pytest.mark.parametrize(
    ("repeat", "failures"),
    [
        (Repeat.ANY, set(Failure)),
        (Repeat.REFUSED, {Failure.UNSENT, Failure.BUSY, Failure.UNAVAILABLE}),
        (Repeat.UNSENT, {Failure.UNSENT, Failure.BUSY}),
    ],
)
def test_a_request_is_repeated_only_after_failures_that_it_survives(repeat: Repeat, failures: set[Failure]) -> None:
    assert {failure for failure in Failure if mends(repeat, failure)} == failures


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("1", 1.0),
        (" 12 ", 12.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("²", None),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds
