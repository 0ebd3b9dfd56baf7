"""Finds the event loop for each call of a coroutine function.

It is the loop that started the run, so that functions can use objects of that loop. For a run that no loop started, it
is the loop that was used last, else a loop of the engine's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tidemill._native import NativeCall

Loop = asyncio.AbstractEventLoop


def running_loop() -> Loop | None:
    """The event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class OwnLoop:
    """An event loop on a thread of its own. It starts when it is first needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        # An engine that the program no longer holds ends at any time, also on a thread that has the lock.
        self._lock = threading.RLock()
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def get(self) -> Loop | None:
        """The loop; `None` once it has been closed."""
        with self._lock:
            if self._closed:
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _run(loop: Loop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                # A coroutine that ignores this must not hold up the end.
                loop.run_until_complete(asyncio.wait(tasks, timeout=1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def close(self) -> list[threading.Thread]:
        """Stops the loop; returns its thread, if it has one."""
        with self._lock:
            was_closed, self._closed = self._closed, True
            if self._loop is None or self._thread is None:
                return []
            if not was_closed:
                self._loop.call_soon_threadsafe(self._loop.stop)
            return [self._thread]


class Loops:
    """Finds the event loop of each call, and starts the call there."""

    def __init__(self, start: Callable[[Loop, NativeCall], None], name: str) -> None:
        self._start = start
        self._own = OwnLoop(name)
        self._lock = threading.Lock()
        #: The loops of runs that were started on one.
        self._of_run: dict[str, Loop] = {}
        #: The loop of calls whose run is not known here, such as a workflow that another one calls.
        self._last: Loop | None = None
        #: Runs that are being started: their ids are not known yet, but their nodes may run.
        self._starting: set[object] = set()
        #: Calls of no known run, each with the starts that began before it and may be of its run.
        self._early: list[tuple[NativeCall, set[object]]] = []

    def use(self, loop: Loop | None) -> None:
        """Sets the loop of all calls whose run is not known here."""
        self._last = loop

    def put(self, call: NativeCall) -> None:
        """Starts a call. Called on the thread of the mailbox."""
        with self._lock:
            loop = self._of_run.get(call.run_id)
            if loop is None and self._starting:
                self._early.append((call, set(self._starting)))
                return
        self._pass_on(loop, call)

    def _pass_on(self, loop: Loop | None, call: NativeCall) -> None:
        if loop is None and self._last is not None and self._last.is_running():
            # Not one that has stopped: it may never run again.
            loop = self._last
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._start, loop, call)
                return
            except RuntimeError:
                # It has been closed.
                pass
        own = self._own.get()
        # A call of a closed engine is dropped, and its attempt with it.
        if own is not None:
            own.call_soon_threadsafe(self._start, own, call)

    @contextmanager
    def starting(self) -> Generator[Callable[[str], Loop | None], None, None]:
        """Wraps the start of a run. It yields a function that takes the id of the run and returns its loop."""
        loop = running_loop()

        def started(run: str) -> Loop | None:
            if loop is not None:
                self._last = loop
                self._of_run[run] = loop
            return loop

        this = object()
        with self._lock:
            self._starting.add(this)
        try:
            yield started
        finally:
            for call in self._no_longer_early(this):
                self._pass_on(self._of_run.get(call.run_id), call)

    def _no_longer_early(self, ended: object) -> list[NativeCall]:
        """Notes that a start has ended; returns the calls whose run is known now, or is none that is being started."""
        with self._lock:
            self._starting.discard(ended)
            early, self._early = self._early, []
            ready: list[NativeCall] = []
            for call, may_be_of in early:
                may_be_of.discard(ended)
                if may_be_of and call.run_id not in self._of_run:
                    self._early.append((call, may_be_of))
                else:
                    ready.append(call)
            return ready

    def forget(self, run: str) -> None:
        """Forgets the loop of a run whose `Run` was dropped."""
        self._of_run.pop(run, None)

    def close(self) -> list[threading.Thread]:
        """Ends the own loop; returns its thread."""
        return self._own.close()
