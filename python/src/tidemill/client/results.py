"""The result of a run, from its events: outputs, or the error that says why there are none. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.client.events import ENDINGS, Event
from tidemill.errors import RunFailed, RunPaused, RunStopped

if TYPE_CHECKING:
    from tidemill.models import Run


def outputs_of(event: Event) -> dict[str, Any]:
    """Return the outputs in the last event of a run. Raises `RunFailed` or `RunStopped`."""
    data = event.data
    return _outputs(event.run_id, ENDINGS[event.type], data.get("error") or data.get("reason"), data.get("outputs"))


def outputs_of_run(run: Run) -> dict[str, Any]:
    """Return the outputs of a run that has ended and was shown. Raises `RunFailed` or `RunStopped`."""
    return _outputs(run["id"], run["status"], run["error"], run["outputs"])


def _outputs(run: str, status: str, error: str | None, outputs: dict[str, Any] | None) -> dict[str, Any]:
    if status == "failed":
        raise RunFailed(run, error or "", outputs)
    if status == "stopped":
        raise RunStopped(run, error or "", outputs)
    return dict(outputs or {})


def check_paused(event: Event, run: Run) -> None:
    """Raise `RunPaused` if the run still waits as this event says.

    An event may be old: the run was continued since. An answer counts at once, before the run is seen to continue.
    """
    pending = [pause for pause in run["pauses"] if pause["status"] == "pending"]
    if run["status"] == "paused" and (pending or is_by_command(event)):
        raise RunPaused(run["id"], pending, run["outputs"])


def is_by_command(event: Event) -> bool:
    """Return whether a command has paused the run."""
    reasons: list[dict[str, Any]] = event.data.get("reasons") or []
    return any(reason.get("TYPE") == "scheduled_pause" for reason in reasons)
