"""The threads of an engine or a worker, on which plain functions and generators run.

They fetch calls themselves and wait without the interpreter's lock. A new one starts only when all others are busy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidemill._native import NativeCall, NativeQueue

log = logging.getLogger("tidemill")


class Threads:
    """A pool of threads for one queue of calls."""

    def __init__(self, run: Callable[[NativeCall], None], limit: int, name: str) -> None:
        self.queue = NativeQueue()
        self._run = run
        self._limit = limit
        self._name = name
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._started = 0
        self._given_up: set[threading.Thread] = set()

    def start(self) -> None:
        """Starts the first thread."""
        self._add()

    def _add(self) -> None:
        with self._lock:
            if len(self._threads) - len(self._given_up) >= self._limit:
                return
            self._started += 1
            thread = threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True)
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._threads.remove(thread)
                if not self._threads:
                    raise
            # The system refuses more threads. Those that are there take the calls.

    def _work(self) -> None:
        me = threading.current_thread()
        try:
            self._take_calls(me)
        finally:
            # Whatever has ended it, its place is free.
            with self._lock:
                self._given_up.discard(me)
                self._threads.remove(me)

    def _take_calls(self, me: threading.Thread) -> None:
        take, run = self.queue.take, self._run
        while True:
            taken = take()
            if taken is None:
                break
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
            if me in self._given_up:
                break

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
