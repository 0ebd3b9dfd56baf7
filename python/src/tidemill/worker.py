"""`Worker`: a worker of a fleet, with functions of Python as executors.

The worker itself is compiled (`tidemill._native`). Here are its functions, and how signals end it.
"""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from tidemill import _native, _process, _program
from tidemill._executors import Executors, Function, default_threads
from tidemill.engine import Settings
from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from tidemill.calls import CoreCall

__all__ = ["Worker"]

#: The interval at which a worker that waits looks whether it still runs, in seconds.
LOOK_SECONDS = 0.2

#: The most permits that the native part can count.
PERMITS_MAX = 2**32 - 1

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Takes jobs of a fleet from Redis and executes them: a node with a function of yours by it, all others itself.

    Its jobs outlive this process: when it is killed, another worker takes them over. A node is therefore executed at
    least once; see `NodeContext.execution_id`.
    """

    def __init__(
        self,
        redis: str | None = None,
        *,
        settings: Settings | None = None,
        queues: Sequence[str] | None = None,
        permits: int | None = None,
        tidemill: str | os.PathLike[str] | None = None,
        threads: int | None = None,
    ) -> None:
        """Makes a worker.

        `redis` is the address (`redis://…`, `redis+sentinel://…`, `redis+cluster://…`), `queues` are the queues that it
        serves besides those of `Worker.queue` (`default` if neither this nor the settings name any), and `permits` is
        the most jobs at once. Each wins over `settings`, which are as for `Engine`; a password at Sentinels is the
        setting `redis.sentinel_password`. The worker serves health and metrics if the settings have `worker.listen`.
        `tidemill` is as for `Engine`. `threads` is the most functions that run at once besides coroutines (64).
        """
        if isinstance(queues, str):
            # A text is a sequence too: of queues whose names have one character.
            raise TypeError(f"queues: a list of names is needed, such as [{queues!r}], not a str")
        if redis is not None and not isinstance(redis, str):
            raise TypeError(f"redis: a str is needed, such as 'redis://…', not {redis.__class__.__name__}")
        self._settings = settings
        self._asked = {
            "redis": redis,
            "queues": None if queues is None else _names(queues),
            "permits": None if permits is None else _permits(permits),
            "tidemill": _program.helper() if tidemill is None else os.fspath(tidemill),
        }
        self._executors = Executors("worker", default_threads(threads))
        self._native: _native.NativeWorker | None = None
        self._asked_to_stop = threading.Event()
        self._stopping = threading.RLock()

    def node(
        self,
        type: str | None = None,
        *,
        id: str | None = None,
        provider: str | None = None,
    ) -> Callable[[Function], Function]:
        """Registers a function for all nodes of a type, for the node with an id, or for the tools of a provider.

        The most exact registration wins: id, provider, type, queue. The function gets a `NodeContext`.
        """
        return self._executors.node(type, id, provider)

    def queue(self, name: str) -> Callable[[Function], Function]:
        """Registers a function for all nodes of a queue (`tidemill: {queue: …}` in the `data` of a node).

        The worker then takes jobs of this queue, too.
        """
        return self._executors.queue(name)

    def calls(self, *classes: type[CoreCall]) -> None:
        """Serves Call classes: nodes of the type `call` name them (docs/python-calls.md).

        Raises `CallStandardError` for a class that does not meet the Call standard; it says what to do.
        """
        self._executors.calls(classes)

    def start(self) -> Worker:
        """Starts taking jobs, and returns. Raises `TidemillError` when Redis cannot be used."""
        if self._native is not None:
            raise RuntimeError("this worker has started already; make another Worker to start again")
        executors = self._executors
        self._native = _native.NativeWorker(
            self._settings, self._asked, executors.start(), executors.threads.queue, executors.loops.put
        )
        _process.opened(self)
        weakref.finalize(self, executors.close).atexit = False
        return self

    @property
    def consumer(self) -> str:
        """The name under which the worker holds jobs."""
        return self._running().consumer

    @property
    def address(self) -> str | None:
        """The address of health and metrics, if they are served."""
        return self._running().address

    @property
    def jobs_held(self) -> int:
        """The number of jobs that the worker holds now."""
        return self._running().jobs_held()

    def run(self) -> None:
        """Works until SIGTERM, Ctrl-C or `stop`. Then running jobs may end within `worker.grace_seconds`.

        The others go back to their queues. A second signal ends the process at once. Raises `TidemillError` when the
        worker ends by itself.
        """
        if self._native is None:
            self.start()
        earlier = self._catch_signals()
        try:
            while not self._asked_to_stop.wait(LOOK_SECONDS):
                if not self._running().is_running():
                    break
            ended_itself = not self._asked_to_stop.is_set()
        finally:
            for number, handler in earlier.items():
                # `None` is a handler that was not set by Python, and cannot be.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._stop_interruptibly()
        if ended_itself:
            raise TidemillError("the worker has ended by itself; the log has the reason")

    async def serve(self, *, signals: bool = True) -> None:
        """As `run`, inside an event loop, on which coroutine functions run. A cancellation ends it like a signal.

        With `signals=False` the handlers of the program stay, for a server that has its own: cancel this, or call
        `stop`.
        """
        loop = asyncio.get_running_loop()
        self._executors.loops.use(loop)
        if self._native is None:
            await asyncio.to_thread(self.start)
        caught = self._catch_signals_on(loop) if signals else {}
        try:
            while not self._asked_to_stop.is_set():
                if not self._running().is_running():
                    raise TidemillError("the worker has ended by itself; the log has the reason")
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for number, handler in caught.items():
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            # A second cancellation does not stop the drain.
            await asyncio.shield(asyncio.to_thread(self.stop))

    def stop(self, grace: float | None = None) -> None:
        """Takes no more jobs, waits up to `grace` seconds for those that run, and returns the rest to their queues.

        From another thread it ends `run`, too. Without `grace` it is `worker.grace_seconds`.
        """
        self._asked_to_stop.set()
        # The second one (`run` and another thread may both stop) waits: functions still need their threads and loop.
        with self._stopping:
            if self._native is not None:
                self._native.stop(grace)
            self._executors.close()

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Worker:
        self._executors.loops.use(asyncio.get_running_loop())
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _running(self) -> _native.NativeWorker:
        if self._native is None:
            raise RuntimeError("this worker has not started; call start, run or serve first")
        return self._native

    def _stop_interruptibly(self) -> None:
        """Stops on another thread, so that a second Ctrl-C is seen here."""
        stopping = threading.Thread(target=self.stop, name="tidemill-stop", daemon=True)
        stopping.start()
        while stopping.is_alive():
            stopping.join(LOOK_SECONDS)

    def _catch_signals(self) -> dict[signal.Signals, Any]:
        """Lets signals end `run`. Only the main thread may set handlers; on others the program calls `stop`."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def asked(_number: int, _frame: FrameType | None) -> None:
            self._asked_to_stop.set()

        return {number: signal.signal(number, asked) for number in _SIGNALS}

    def _catch_signals_on(self, loop: asyncio.AbstractEventLoop) -> dict[signal.Signals, Any]:
        """As `_catch_signals`; returns the earlier handlers, too."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        caught: dict[signal.Signals, Any] = {}
        for number in _SIGNALS:
            earlier = signal.getsignal(number)
            try:
                loop.add_signal_handler(number, self._asked_to_stop.set)
            except NotImplementedError:
                continue
            caught[number] = earlier
        return caught

    def close_at_exit(self) -> list[threading.Thread]:
        """Closes at the end of the process; returns the threads that end soon."""
        if self._native is not None:
            # What it holds goes back to the queues at once.
            self._native.stop(0.0)
        return self._executors.close()


def _names(queues: Sequence[str]) -> list[str]:
    names = list(queues)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"queues: a name is a str, not {name.__class__.__name__}")
    return names


def _permits(permits: int) -> int:
    try:
        number = operator.index(permits)
    except TypeError:
        raise TypeError(f"permits: a whole number is needed, not {permits.__class__.__name__}") from None
    if number < 1:
        # A worker without permits would take no job, and say nothing.
        raise ValueError(f"permits must be at least 1, not {number}")
    if number > PERMITS_MAX:
        raise ValueError(f"permits must be at most {PERMITS_MAX}, not {number}")
    return number
