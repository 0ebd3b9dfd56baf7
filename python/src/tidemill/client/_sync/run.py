"""A run on a fleet, as a client handles it: its events, its result, commands and answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidemill.client._sync.transport import Transport
from tidemill.client.events import PAUSED, Event
from tidemill.client.follow import Follow
from tidemill.client.operations import runs
from tidemill.client.results import check_paused, is_by_command, outputs_of, outputs_of_run

if TYPE_CHECKING:
    from tidemill.models import AnswerRequest, History, MessageList, Pause, Run

RESUME_SECONDS = 5.0
"""The longest time that `result` waits for a run to continue that was resumed by command."""
RESUME_LOOK_SECONDS = 0.05


class RemoteRun:
    """A run that a server has. The run goes on whether or not this object is used."""

    def __init__(
        self,
        transport: Transport,
        run_id: str,
        *,
        status: str | None = None,
        version: str | None = None,
        conversation_id: str | None = None,
    ) -> None:
        self._transport = transport
        self._seen: str | None = None
        """The place up to which `result` has read."""
        self._was_resumed = False
        """Whether `resume` was accepted, and `result` has not seen the run continue."""
        self.id = run_id
        self.status = status
        """The status in the answer to the submission; `show` has the present one."""
        self.version = version
        """The hash of the workflow."""
        self.conversation_id = conversation_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def events(
        self, *, after: Event | str | None = None, live: bool = True, until_paused: bool = False
    ) -> Iterator[Event]:
        """Return the events from the first one, or after an event, and end with the run.

        A connection that breaks is continued: no event is missing and none comes twice. `live=False` ends after the
        events that exist, `until_paused` also after the first pause. An event of type `reset` means: forget all
        earlier ones. Raises `StreamLost` when the server is away for too long.
        """
        settings = self._transport.settings
        follow = Follow(
            self.id,
            after=after,
            live=live,
            until_paused=until_paused,
            retries=settings.stream_retries,
            frame_bytes_max=settings.frame_bytes_max,
        )
        return self._transport.follow(follow)

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the end of the run and return its outputs.

        Raises `RunFailed`, `RunStopped`, `RunPaused` while the run waits for an answer or for `resume`, and
        `TimeoutError` after `timeout` seconds; the run goes on then. Call it again after the answer.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        settings = self._transport.settings
        follow = Follow(self.id, after=self._seen, retries=settings.stream_retries)
        for event in self._transport.follow(follow, deadline):
            self._seen = event.position
            if event.is_last:
                return outputs_of(event)
            if event.type == PAUSED:
                self._check_paused(event)
        # All events were read before, or they are gone.
        return outputs_of_run(self._transport.do(runs.show(self.id)))

    def _check_paused(self, event: Event) -> None:
        """Raise `RunPaused` if the run waits. After `resume` it may take a moment until the run is seen to continue."""
        patience = RESUME_SECONDS if self._was_resumed and is_by_command(event) else 0.0
        end = time.monotonic() + patience
        shown = self._transport.do(runs.show(self.id))
        while shown["status"] == "paused" and time.monotonic() < end:
            self._transport.sleep(RESUME_LOOK_SECONDS)
            shown = self._transport.do(runs.show(self.id))
        self._was_resumed = False
        check_paused(event, shown)

    def show(self, *, values: bool = False) -> Run:
        """Return the run with its nodes; with `values` they have their inputs and outputs."""
        return self._transport.do(runs.show(self.id, values))

    def stop(self, reason: str | None = None, *, key: str | None = None) -> None:
        """Stop the run. Raises `RunOver` if it has ended."""
        self._transport.do(runs.command(self.id, "stop", key, reason=reason))

    def pause(self, reason: str | None = None, *, key: str | None = None) -> None:
        """Let no new node begin; when the running ones have ended, the run is paused.

        The job of a node that the scheduler has not seen begin is taken back: the node is executed again after
        `resume`.
        """
        self._transport.do(runs.command(self.id, "pause", key, reason=reason))

    def resume(self, *, key: str | None = None) -> None:
        """End a pause that `pause` began; forms that wait still wait."""
        self._transport.do(runs.command(self.id, "resume", key))
        self._was_resumed = True

    def update(self, variables: Mapping[str, Any], *, key: str | None = None) -> None:
        """Set variables, by `<node>.<name>`; nodes that begin later see them."""
        self._transport.do(runs.command(self.id, "update_variables", key, updates=dict(variables)))

    def pauses(self) -> list[Pause]:
        """Return all pauses of the run, oldest first, also those that are over."""
        return self._transport.do(runs.pauses(self.id))

    def answer(self, pause_id: str, answer: AnswerRequest | Mapping[str, Any]) -> None:
        """Answer a pause: `{"action": …, "inputs": {…}}` for a form, else `{"input": …}`, or `{"cancel": True}`.

        Raises `InvalidRequest` with `errors` if it does not fit, and `Conflict` or `Gone` if it comes too late.
        """
        self._transport.do(runs.answer(self.id, pause_id, answer))

    def snapshot(self) -> bytes:
        """Return the run as a document, from which `resume` of a client makes another run. Raises `RunOver`."""
        return self._transport.do(runs.snapshot(self.id))

    def messages(self, name: str = "main", *, start: int = 0, limit: int = 100) -> MessageList:
        """Return a list of messages of the run with a page of its messages."""
        return self._transport.do(runs.messages(self.id, name, start, limit))

    def runtime(self) -> dict[str, Any]:
        """Return the runtime values of the run's steps."""
        return self._transport.do(runs.runtime(self.id))

    def history(self, *, start: int = 0, limit: int = 100, view: str | None = None, errors: bool = False) -> History:
        """Return a page of the history, whole or in a view (`lp`, `cx`, `se`)."""
        return self._transport.do(runs.history(self.id, start, limit, view, errors))
