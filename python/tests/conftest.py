"""Fixtures for all tests of the package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet import EXAMPLES, PROGRAMS, Fleet


@pytest.fixture(autouse=True)
def _own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code nodes of embedded engines use the program that cargo has built, not one that is installed."""
    monkeypatch.setenv("TIDEMILL_CODE_HELPER", str(PROGRAMS / "tidemill"))


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """A fleet with a worker and the examples' mock model. Tests share it: they must not stop its processes."""
    with Fleet(model=EXAMPLES / "mock-rules.json") as started:
        started.worker()
        yield started
