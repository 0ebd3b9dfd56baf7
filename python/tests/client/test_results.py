"""The result of a run by its events, also by old ones."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tidemill.client.events import Event
from tidemill.client.results import check_paused, outputs_of, outputs_of_run
from tidemill.errors import RunFailed, RunPaused, RunStopped
from tidemill.models import Run


def run(status: str, *pauses: str, **fields: Any) -> Run:
    listed = [{"status": pause, "node_id": "ask"} for pause in pauses]
    return cast("Run", {"id": "r", "status": status, "pauses": listed, "outputs": {}, "error": None, **fields})


def paused(kind: str) -> Event:
    return Event("graph_run_paused", {"reasons": [{"TYPE": kind}]}, 5)


@pytest.mark.parametrize(
    ("kind", "shown", "waits"),
    [
        ("hitl_required", run("paused", "pending"), True),
        ("hitl_required", run("paused", "answered", "pending"), True),
        # The answer is stored, and the run is not yet seen to continue.
        ("hitl_required", run("paused", "answered"), False),
        ("hitl_required", run("running", "answered"), False),
        ("hitl_required", run("succeeded", "answered"), False),
        ("scheduled_pause", run("paused"), True),
        ("scheduled_pause", run("running"), False),
        # Another branch waits for a person, and the run works on.
        ("scheduled_pause", run("running", "pending"), False),
    ],
)
def test_a_pause_is_raised_only_while_the_run_waits(kind: str, shown: Run, waits: bool) -> None:
    if not waits:
        check_paused(paused(kind), shown)
        return
    with pytest.raises(RunPaused) as raised:
        check_paused(paused(kind), shown)
    assert {pause["status"] for pause in raised.value.pauses} <= {"pending"}


def test_the_last_event_has_the_outputs_or_the_error() -> None:
    assert outputs_of(Event("graph_run_succeeded", {"outputs": {"a": 1}})) == {"a": 1}
    assert outputs_of(Event("graph_run_partial_succeeded", {})) == {}
    with pytest.raises(RunStopped, match="because"):
        outputs_of(Event("graph_run_aborted", {"reason": "because"}))
    with pytest.raises(RunFailed, match="broken") as failed:
        outputs_of(Event("graph_run_failed", {"error": "broken", "outputs": {"a": 1}}, run_id="r"))
    assert (failed.value.run_id, failed.value.outputs) == ("r", {"a": 1})


def test_a_run_that_was_shown_has_them_too() -> None:
    assert outputs_of_run(run("partial-succeeded", outputs={"a": 1})) == {"a": 1}
    for status, kind in (("failed", RunFailed), ("stopped", RunStopped)):
        with pytest.raises(kind, match="why"):
            outputs_of_run(run(status, error="why"))
