"""What the package has once per process: the thread of the mailbox, and the end of all engines and workers at exit.

The engine's threads never take the interpreter's lock. What they have for Python they leave in the mailbox, and one
thread empties it. It only passes things on: to event loops, and to itself for later.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from tidemill import _native

log = logging.getLogger("tidemill")

#: The longest time that the end of the process waits for threads of the package, in seconds.
EXIT_SECONDS = 3.0


class Closable(Protocol):
    """An engine or a worker."""

    def close_at_exit(self) -> list[threading.Thread]:
        """Closes at once; returns the threads that end soon."""
        ...


_lock = threading.Lock()
_open: weakref.WeakSet[Closable] = weakref.WeakSet()
_mailbox: threading.Thread | None = None
_later: list[tuple[float, int, Callable[[], None]]] = []
_ids = itertools.count()


def opened(closable: Closable) -> None:
    """Notes an engine or a worker, and starts what the process needs for it."""
    global _mailbox
    with _lock:
        _open.add(closable)
        if _mailbox is None:
            mailbox = threading.Thread(target=_empty_the_mailbox, name="tidemill-mailbox", daemon=True)
            mailbox.start()
            _mailbox = mailbox


def later(seconds: float, function: Callable[[], None]) -> None:
    """Calls a function later. Only for the thread of the mailbox."""
    heapq.heappush(_later, (time.monotonic() + seconds, next(_ids), function))


def _empty_the_mailbox() -> None:
    while True:
        wait = None if not _later else max(0, int((_later[0][0] - time.monotonic()) * 1000) + 1)
        letters = _native.letters(wait)
        if letters is None:
            return
        for function, call in letters:
            try:
                if call is None:
                    function()
                else:
                    function(call)
            except Exception:
                log.exception("tidemill: a message of the engine could not be passed on")
        # What is kept would live until the next letter.
        function = call = letters = None  # type: ignore[assignment]
        while _later and _later[0][0] <= time.monotonic():
            heapq.heappop(_later)[2]()


def _at_exit() -> None:
    """Ends all threads of the package that may need the interpreter, before it goes."""
    threads: list[threading.Thread] = []
    for closable in list(_open):
        threads.extend(closable.close_at_exit())
    if _mailbox is not None:
        _native.close_mailbox()
        threads.append(_mailbox)
    end = time.monotonic() + EXIT_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


def _in_child() -> None:
    """Forgets, in a forked process, what belongs to its parent. The native part refuses every use there."""
    global _lock, _mailbox
    if _mailbox is not None:
        _lock, _mailbox = threading.Lock(), None
        _open.clear()
        _later.clear()
        atexit.unregister(_at_exit)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
