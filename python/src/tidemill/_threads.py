"""The threads of an engine or a worker, on which plain functions and generators run.

They fetch calls themselves and wait without the interpreter's lock. A new one starts only when all others are busy. A
thread whose function waits for another run does not count: that run may need a thread, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tidemill._native import NativeCall, NativeQueue

log = logging.getLogger("tidemill")

#: `pool` is the pool of the thread that asks, if it is one of a pool.
_mine = threading.local()


@contextmanager
def waiting() -> Generator[None, None, None]:
    """Around a wait for a run: in a function on a thread of a pool, another thread takes its place meanwhile."""
    pool: Threads | None = getattr(_mine, "pool", None)
    if pool is None:
        yield
    else:
        with pool._waiting():
            yield


class Threads:
    """A pool of threads for one queue of calls."""

    def __init__(self, run: Callable[[NativeCall], None], limit: int, name: str) -> None:
        self.queue = NativeQueue()
        self._run = run
        self._limit = limit
        self._name = name
        # An engine that the program no longer holds ends at any time, also on a thread that has the lock.
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._started = 0
        self._given_up: set[threading.Thread] = set()
        #: Threads whose functions wait for another run.
        self._lent = 0

    def start(self) -> None:
        """Starts the first thread."""
        self._add()

    def _add(self) -> None:
        with self._lock:
            if self._at_work() >= self._limit:
                return
            self._started += 1
            thread = threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True)
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                self._threads.remove(thread)
                if not self._threads:
                    raise
            log.warning("no further thread for functions could be started, calls wait for one: %s", error)

    def _at_work(self) -> int:
        return len(self._threads) - len(self._given_up) - self._lent

    @contextmanager
    def _waiting(self) -> Generator[None, None, None]:
        with self._lock:
            # Otherwise one more has started already.
            is_full = self._at_work() >= self._limit
            self._lent += 1
        try:
            if is_full:
                self._add()
            yield
        finally:
            with self._lock:
                self._lent -= 1

    def _work(self) -> None:
        me = threading.current_thread()
        try:
            self._take_calls(me)
        finally:
            # Whatever has ended it, its place is free.
            with self._lock:
                self._leave(me)

    def _leave(self, me: threading.Thread) -> None:
        """Gives the place of a thread back. Under the lock."""
        self._given_up.discard(me)
        if me in self._threads:
            self._threads.remove(me)

    def _take_calls(self, me: threading.Thread) -> None:
        take, run = self.queue.take, self._run
        _mine.pool = self
        while True:
            taken = take()
            if taken is None:
                return
            call, waiting = taken
            if waiting == 0:
                self._add()
            try:
                run(call)
            except BaseException:
                # The thread goes on: other calls may wait for it.
                call.fail("NoResultError", f"the function of node {call.node_id} has ended without a result")
                log.exception("tidemill: the end of node %s could not be told", call.node_id)
            # Not kept while the thread waits.
            del call, taken
            with self._lock:
                # Too many are left over when functions no longer wait for other runs. It leaves under the same lock:
                # otherwise two could leave at once, and none would be left.
                if me in self._given_up or self._at_work() > self._limit:
                    self._leave(me)
                    return

    def give_up(self, thread: threading.Thread) -> None:
        """Lets another thread take the place of one whose function does not end."""
        with self._lock:
            if thread not in self._threads:
                return
            self._given_up.add(thread)
        self._add()

    def close(self) -> list[threading.Thread]:
        """Takes no more calls; returns the threads that end soon: all whose functions end."""
        self.queue.close()
        with self._lock:
            return [thread for thread in self._threads if thread not in self._given_up]
