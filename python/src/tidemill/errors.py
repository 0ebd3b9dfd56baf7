"""The exceptions that engines, workers and clients share, so that a program catches them in the same way.

All are `TidemillError`. A wrong argument raises `ValueError` or `TypeError`, a call at the wrong time `RuntimeError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Refused", "RunFailed", "RunPaused", "RunStopped", "TidemillError"]


class TidemillError(Exception):
    """Something that Tidemill cannot do; the text says what and why."""


class Refused(TidemillError):
    """The engine or a server refuses a request: a workflow, inputs, a command, an answer, a snapshot.

    `code` is that of the API, such as `invalid_workflow`, `not_found` or `run_over`. `diagnostics` are the
    problems of a workflow file, each with its code, message and place; empty for other requests.
    """

    def __init__(self, code: str, message: str, diagnostics: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(code, message, list(diagnostics))
        self.code = code
        self.message = message
        self.diagnostics: list[Mapping[str, Any]] = list(diagnostics)

    def __str__(self) -> str:
        problems = [f"\n  {_problem(item)}" for item in self.diagnostics if item.get("message") != self.message]
        return f"{self.message} ({self.code}){''.join(problems)}"


def _problem(diagnostic: Mapping[str, Any]) -> str:
    line = diagnostic.get("line")
    place = f"line {line}: " if line else ""
    return f"{place}{diagnostic.get('message')} ({diagnostic.get('code')})"


class RunFailed(TidemillError):
    """A run has failed. `run_id` names it, `error` is its error; `outputs` are those so far, if they are known.

    `node_id` is the node whose failure ended the run, if the engine in this process ran it and the node is known.
    """

    #: `failed`, or `stopped`.
    status = "failed"

    def __init__(
        self, run_id: str, error: str, outputs: Mapping[str, Any] | None = None, node_id: str | None = None
    ) -> None:
        super().__init__(run_id, error, dict(outputs or {}), node_id)
        self.run_id = run_id
        self.error = error
        self.outputs: dict[str, Any] = dict(outputs or {})
        self.node_id = node_id

    def __str__(self) -> str:
        place = f" at node {self.node_id}" if self.node_id else ""
        return f"the run has {self.status}{place}: {self.error}" if self.error else f"the run has {self.status}{place}"


class RunStopped(RunFailed):
    """A command, a limit or a node has stopped the run. `error` is the reason."""

    status = "stopped"

    def __str__(self) -> str:
        # `error` has Dify's prefix, which would say the same twice.
        reason = self.error.removeprefix("Aborted: ")
        return f"the run was stopped: {reason}" if reason else "the run was stopped"


class RunPaused(TidemillError):
    """A run waits for an answer, or for `Run.resume`: then `pauses` is empty.

    `pauses` are the pauses that wait for an answer, `outputs` the outputs so far.
    """

    def __init__(
        self, run_id: str, pauses: Sequence[Mapping[str, Any]], outputs: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(run_id, list(pauses), dict(outputs or {}))
        self.run_id = run_id
        self.pauses: list[Mapping[str, Any]] = list(pauses)
        self.outputs: dict[str, Any] = dict(outputs or {})

    def __str__(self) -> str:
        nodes = ", ".join(str(pause.get("node_id")) for pause in self.pauses)
        waits = f"for an answer to {nodes}" if nodes else "for Run.resume"
        return f"the run waits {waits}"
