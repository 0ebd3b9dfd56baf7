"""`Engine` and `Run`: run workflow files in this process, without Redis and without a port.

The engine itself is compiled (`tidemill._native`). This module does what only Python can do: it finds the loop of a
run, refuses waits that would block it, and raises the exceptions of a result.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union, cast

from tidemill import _files, _native, _process, _program
from tidemill._executors import Executors, Function, default_threads
from tidemill._loops import Loop, running_loop
from tidemill._threads import waiting
from tidemill._workflow import Workflow, text_of
from tidemill.errors import Refused, RunFailed, RunPaused, RunStopped
from tidemill.events import Event

if TYPE_CHECKING:
    from tidemill.calls import CoreCall

__all__ = ["Engine", "Run", "Settings"]

#: The path of a `tidemill.toml`, or its sections as a mapping.
Settings = Union[str, "os.PathLike[str]", Mapping[str, Any]]

#: The interval at which a thread that waits looks for signals such as Ctrl-C, in milliseconds.
LOOK_MS = 100


class Engine:
    """Runs workflow files in this process. Its runs are lost when it is closed, unless you keep a `Run.snapshot`.

    A function of yours (`Engine.node`, `Engine.queue`) executes its nodes, the engine all others. The engine starts
    with its first run. Use it from any number of threads and event loops. Close it: an engine whose functions refer to
    it does not end by itself.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        tidemill: str | os.PathLike[str] | None = None,
        threads: int | None = None,
    ) -> None:
        """Makes an engine.

        `settings` is the path of a `tidemill.toml`, or a mapping of its sections; without it, `tidemill.toml` in the
        working directory is read, if there is one. `tidemill` is the path of the `tidemill` program, which runs code
        nodes and reads documents; without it, the engine takes the packaged one, or one of the same version on `PATH`.
        `threads` is the most functions that run at once besides coroutines (64).
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
        """Registers a function for all nodes of a queue (`tidemill: {queue: …}` in the `data` of a node)."""

        return self._executors.queue(name)

    def calls(self, *classes: type[CoreCall]) -> None:
        """Serves Call classes: nodes of the type `call` name them (docs/python-calls.md).

        Raises `CallStandardError` for a class that does not meet the Call standard; it says what to do.
        """
        self._executors.calls(classes)

    def start(self) -> Engine:
        """Starts the engine, before its first run would do it."""
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
        """Starts a run of a workflow: a path, the text of a file, or a mapping. The run continues if you drop it.

        `inputs` are those of the start node; `query` and `files` are the message of a chat. `conversation_id` names a
        conversation, whose variables and turns the engine keeps from run to run; `conversation` sets variables of it.
        `sys` sets system variables; then none has a default. `options` (such as `max_steps`) and all other fields are
        those of `POST /api/v1/runs` in docs/api.md. Raises `Refused` for a workflow or inputs that do not fit.
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
        """Continues a run from a snapshot, which this engine, another one or a fleet has made.

        Raises `Refused` for a document that is no snapshot.
        """
        if not isinstance(snapshot, (bytes, bytearray, memoryview)):
            raise TypeError(
                "a snapshot is bytes, as Run.snapshot returns them, "
                f'not {snapshot.__class__.__name__}; open its file with "rb"'
            )
        return self._begin(lambda native: native.resume(bytes(snapshot)))

    def find(self, run_id: str) -> Run:
        """A run of this engine by its id. Raises `Refused` with the code `not_found` if the engine has no such run."""
        if not isinstance(run_id, str):
            raise TypeError(f"run_id: a str is needed, not {run_id.__class__.__name__}")
        return self._begin(lambda native: native.find(run_id))

    def upload(
        self, file: str | os.PathLike[str] | bytes, name: str | None = None, user: str | None = None
    ) -> dict[str, Any]:
        """Stores a file, given by its path or as bytes; returns it as inputs, `files` and answers to forms take it.

        Only runs of the same `user` may use it. `name` says what kind of file it is; bytes need one. Raises `Refused`
        with the code `file_too_large` for a file above the limit of its kind (`scheduler.upload_bytes_max` and others).
        """
        own_name, content = _files.read(file)
        name = _files.text("name", name) or own_name
        if not name:
            raise ValueError('name: bytes have no name of a file; give one, such as name="tide.pdf"')
        return self._started().upload(name, content, _files.text("user", user) or "")

    def advance(self, seconds: float) -> None:
        """Moves the clock of the engine ahead, so that a test need not wait for timers and forms."""
        self._started().advance(int(seconds * 1_000_000))

    def close(self, *, wait: bool = False) -> None:
        """Closes the engine. Runs that have not ended are lost, and functions that run are cancelled.

        With `wait`, running nodes may end first, within `worker.grace_seconds`.
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
                raise RuntimeError("this engine is closed; make a new one")
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
    """A run of an engine. It continues when this object is dropped.

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

        Raises `RunFailed`, `RunStopped`, or `RunPaused` when the run waits for an answer or for `resume`. After
        `timeout` seconds it raises `TimeoutError`, and the run goes on.
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
        """Lets no new node begin, and pauses the run when the running ones have ended.

        The job of a node that the engine has not seen begin (`node_run_started`) is taken back: its function is
        cancelled, and runs again after `resume`.
        """
        self._native.pause(reason)

    def resume(self) -> None:
        """Ends a pause that `pause` began."""
        self._native.resume()

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets variables: `node.name` or `conversation.name` to values."""
        self._native.update(_mapping("values", values))

    def pauses(self) -> list[dict[str, Any]]:
        """All pauses of the run, oldest first, also those that are over (see their `status`)."""
        return self._native.pauses()

    def answer(self, pause_id: str, answer: Mapping[str, Any]) -> None:
        """Answers a pause: `{"input": …}`, or `{"action": …, "inputs": {…}}` of a form."""
        self._native.answer(pause_id, _mapping("an answer", answer))

    def snapshot(self) -> bytes:
        """The run as one document, from which `Engine.resume` makes another run. This run continues, too."""
        return self._native.snapshot()

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    def _refuse_to_block(self, instead: str) -> None:
        """A thread must not wait for a run whose coroutines need this thread's event loop."""
        if self._loop is not None and running_loop() is self._loop:
            raise RuntimeError(
                f"this would block the event loop on which the functions of the run are called; use `{instead}`"
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
            raise RunFailed(self.id, text, outputs, self._failed_node())
        if status == "stopped":
            raise RunStopped(self.id, text, outputs)
        raise RunPaused(self.id, pauses, outputs)

    def _failed_node(self) -> str | None:
        """The node that ended the run: of those that failed, the one whose error is that of the run."""
        try:
            shown = self.show()
        except Refused:
            # The engine was closed, or has forgotten the run.
            return None
        failed = [node for node in shown["nodes"] if node["status"] == "failed" and node["error"] == shown["error"]]
        return str(failed[-1]["id"]) if failed else None


def _mapping(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what}: a mapping is needed, not {value.__class__.__name__}")
    return dict(cast("Mapping[str, Any]", value))


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
