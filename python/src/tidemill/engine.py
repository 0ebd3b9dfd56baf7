"""The engine inside this process: it runs workflow files without Redis and without a port."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

from tidemill import _native, _process, _program
from tidemill._executors import Executors, Function, default_threads
from tidemill._loops import Loop, running_loop
from tidemill._threads import waiting
from tidemill._workflow import Workflow, text_of
from tidemill.errors import RunFailed, RunPaused, RunStopped
from tidemill.events import Event

if TYPE_CHECKING:
    from tidemill.calls import CoreCall

__all__ = ["Engine", "Run", "Settings"]

#: The path of a `tidemill.toml`, or its sections as a mapping.
Settings = Union[str, "os.PathLike[str]", Mapping[str, Any]]

#: The interval at which a thread that waits looks for signals such as Ctrl-C, in milliseconds.
LOOK_MS = 100


class Engine:
    """Runs workflow files in this process. Its runs end with it, unless you keep a `Run.snapshot`.

    Nodes that have a function of yours (`Engine.node`, `Engine.queue`) are executed by it, all others by the engine.
    It starts with its first run. Use it from any number of threads and event loops.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        tidemill: str | os.PathLike[str] | None = None,
        threads: int | None = None,
    ) -> None:
        """Makes an engine.

        `settings` are those of the programs; without any, `tidemill.toml` in the working directory is read if it is
        there. `tidemill` is the path of the `tidemill` program, which runs code nodes and reads documents; without it,
        it is looked for. `threads` is the most functions that run at once besides coroutines.
        """
        self._settings = settings
        self._tidemill = os.fspath(tidemill) if tidemill is not None else _program.helper()
        self._executors = Executors("engine", default_threads(threads))
        self._lock = threading.Lock()
        self._native: _native.NativeEngine | None = None
        self._closed = False
        self._finalizer: weakref.finalize[..., Any] | None = None

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
        """Registers a function for all nodes of a queue (`tidemill: {queue: …}` in the data of a node)."""

        def register(function: Function) -> Function:
            return self._executors.add("queue", name, function)

        return register

    def calls(self, *classes: type[CoreCall]) -> None:
        """Serves Call classes: nodes of the type `call` name them (docs/python-calls.md).

        Raises `CallStandardError` for a class that does not meet the Call standard; it says what to do.
        """
        self._executors.calls(classes)

    def start(self) -> Engine:
        """Starts the engine; its first run does it otherwise."""
        self._started()
        return self

    @property
    def lacks(self) -> list[str]:
        """The node types that cannot run in this engine, each with the reason, as sentences."""
        return self._started().lacks()

    def run(
        self,
        workflow: Workflow,
        inputs: Mapping[str, Any] | None = None,
        *,
        query: str | None = None,
        files: Sequence[Mapping[str, Any]] | None = None,
        user: str | None = None,
        sys: Mapping[str, Any] | None = None,
        conversation: Mapping[str, Any] | None = None,
        conversation_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Run:
        """Starts a run of a workflow: a path, the text of a file, or a mapping. It goes on without being watched.

        `inputs` are those of the start node, `query` and `files` the message of a chat, `conversation` variables of the
        conversation, `conversation_id` names one whose variables and turns go from run to run. `sys` gives all system
        variables itself. `options` are those of docs/api.md, such as `max_steps`; so are further fields. Raises
        `Refused` for a workflow or inputs that do not fit.
        """
        given = {
            "inputs": inputs or {},
            "query": query,
            "files": files,
            "user": user,
            "sys": sys,
            "conversation": conversation,
            "conversation_id": conversation_id,
            "options": options,
            **fields,
        }
        text = text_of(workflow)
        request = {name: value for name, value in given.items() if value is not None}
        return self._begin(lambda native: native.run(text, request))

    def resume(self, snapshot: bytes) -> Run:
        """Continues a run from a snapshot, of this engine, of another one or of a fleet."""
        return self._begin(lambda native: native.resume(bytes(snapshot)))

    def find(self, run_id: str) -> Run:
        """A run of this engine by its id. Raises `Refused` with the code `not_found` if it has none, or no longer."""
        return self._begin(lambda native: native.find(run_id))

    def advance(self, seconds: float) -> None:
        """Moves the clock of the engine ahead: timers and forms that are due then come. For tests of workflows."""
        self._started().advance(int(seconds * 1_000_000))

    def close(self, *, wait: bool = False) -> None:
        """Closes the engine. Its runs are lost, and functions that run are cancelled.

        With `wait` nodes that run now may end within `worker.grace_seconds`.
        """
        with self._lock:
            self._closed = True
            native, self._native = self._native, None
        if native is not None:
            native.close(wait)
        self._executors.close()

    def __enter__(self) -> Engine:
        # It starts with its first run, so that functions can be registered inside the block.
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Engine:
        # The loop of the caller is that of calls whose run is not known, too.
        self._executors.loops.use(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _started(self) -> _native.NativeEngine:
        with self._lock:
            if self._closed:
                raise RuntimeError("this engine is closed")
            if self._native is None:
                executors = self._executors
                self._native = _native.NativeEngine(
                    self._settings,
                    self._tidemill,
                    executors.start(),
                    executors.threads.queue,
                    executors.loops.put,
                )
                _process.opened(self)
                self._finalizer = weakref.finalize(self, executors.close)
                self._finalizer.atexit = False
            return self._native

    def _begin(self, begin: Callable[[_native.NativeEngine], _native.NativeRun]) -> Run:
        native = self._started()
        executors = self._executors
        if not executors.has_coroutines:
            return Run(begin(native), self)
        with executors.loops.starting() as started:
            run = begin(native)
            loop = started(run.id)
        return Run(run, self, loop)

    def close_at_exit(self) -> list[threading.Thread]:
        """Closes at the end of the process; returns the threads that end soon."""
        native, self._native, self._closed = self._native, None, True
        if native is not None:
            native.close(False)
        return self._executors.close()


class Run:
    """A run of an engine. It goes on when nobody holds this object.

    Iterate it for its events, from the first one to the last one: `for event in run` or `async for event in run`. Each
    iteration begins with the first event. Its methods may be called from any thread.
    """

    def __init__(self, native: _native.NativeRun, engine: Engine, loop: Loop | None = None) -> None:
        self._native = native
        # An engine that is not held any more ends, and its runs with it.
        self._engine = engine
        self._loop = loop
        if loop is not None:
            weakref.finalize(self, engine._executors.loops.forget, native.id).atexit = False

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._native.id

    @property
    def conversation_id(self) -> str | None:
        """The id of its conversation, if it has one."""
        return self._native.conversation

    def __iter__(self) -> Iterator[Event]:
        self._refuse_to_block("async for event in run")
        events = self._native.events()
        while True:
            with waiting():
                batch = events.next(LOOK_MS)
            if batch is None:
                continue
            if not batch:
                return
            for event in batch:
                yield Event(event)

    async def __aiter__(self) -> AsyncIterator[Event]:
        loop = asyncio.get_running_loop()
        events = self._native.events()
        while True:
            await _ready(loop, events.when_ready)
            batch = events.take()
            if not batch:
                return
            for event in batch:
                yield Event(event)

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end of the run; returns its outputs.

        Raises `RunFailed`, `RunStopped`, or `RunPaused` when the run waits for an answer or a command; `TimeoutError`
        after `timeout` seconds, and the run goes on.
        """
        self._refuse_to_block("await run.wait()")
        outcome = self._native.outcome()
        left = None if timeout is None else max(0, int(timeout * 1000))
        with waiting():
            while not outcome.wait(LOOK_MS if left is None else min(LOOK_MS, left)):
                if left is not None:
                    left -= LOOK_MS
                    if left <= 0:
                        raise TimeoutError(f"run {self.id} has not ended within {timeout:g} seconds; it goes on")
        return self._outputs(outcome)

    async def wait(self) -> dict[str, Any]:
        """As `result`, for an event loop."""
        outcome = self._native.outcome()
        await _ready(asyncio.get_running_loop(), outcome.when_ready)
        return self._outputs(outcome)

    def show(self) -> dict[str, Any]:
        """The run as `GET /api/v1/runs/{id}` shows it: status, outputs, nodes, tokens."""
        return self._native.show()

    def stop(self, reason: str = "") -> None:
        """Ends the run; its status is `stopped`."""
        self._native.stop(reason)

    def pause(self, reason: str = "") -> None:
        """Pauses the run when the nodes that run now have ended."""
        self._native.pause(reason)

    def resume(self) -> None:
        """Ends a pause that `pause` began."""
        self._native.resume()

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets variables: `node.name` or `conversation.name` to values."""
        self._native.update(dict(values))

    def pauses(self) -> list[dict[str, Any]]:
        """The pauses of the run, with the forms that wait for an answer."""
        return self._native.pauses()

    def answer(self, pause_id: str, answer: Mapping[str, Any]) -> None:
        """Answers a pause: `{"input": …}`, or `{"action": …, "inputs": {…}}` of a form."""
        self._native.answer(pause_id, dict(answer))

    def snapshot(self) -> bytes:
        """The run as one document, with all that it needs to go on elsewhere: `Engine.resume`. The run goes on, too."""
        return self._native.snapshot()

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    def _refuse_to_block(self, instead: str) -> None:
        """A thread must not wait for a run whose coroutines need this thread's event loop."""
        if self._loop is not None and running_loop() is self._loop:
            raise RuntimeError(
                f"this would block the event loop on which the functions of the run execute; use `{instead}`"
            )
        if self._loop is not None and not self._loop.is_running() and not self._loop.is_closed():
            raise RuntimeError(
                f"the event loop on which the functions of the run execute does not run now; use `{instead}` on it"
            )

    def _outputs(self, outcome: _native.NativeOutcome) -> dict[str, Any]:
        told = outcome.take()
        if told is None:
            raise RuntimeError("the outcome of the run was taken already")
        status, outputs, _exceptions, text, pauses = told
        if status == "succeeded":
            return outputs
        if status == "failed":
            raise RunFailed(self.id, text, outputs)
        if status == "stopped":
            raise RunStopped(self.id, text, outputs)
        raise RunPaused(self.id, pauses, outputs)


async def _ready(loop: Loop, when_ready: Callable[[Callable[[], None]], None]) -> None:
    """Waits for something of the engine without a thread."""
    future: asyncio.Future[None] = loop.create_future()

    def arrived() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        # On the thread of the mailbox. A loop that is closed waits for nothing.
        if not loop.is_closed():
            loop.call_soon_threadsafe(arrived)

    when_ready(wake)
    await future
