"""The functions that execute nodes: their table, and how each kind of function runs.

Plain functions and generators run on threads, coroutine functions and async generators on an event loop. An exception
becomes the failure of the node; its traceback goes to the log `tidemill`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import logging
import operator
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from typing import Any, TypeVar, cast

from tidemill import _native, _process
from tidemill._loops import Loop, Loops
from tidemill._native import NativeCall
from tidemill._threads import Threads
from tidemill.nodes import Chunk, NodeContext, NodeResult, Pause

log = logging.getLogger("tidemill")

#: The time after which a function that goes on after its cancellation is given up with a warning, in seconds.
GIVE_UP_SECONDS = 5.0
#: The interval at which an async generator looks whether the worker has taken enough of its text, in seconds.
LOOK_SECONDS = 0.01

#: The most threads of an engine or worker that did not ask for a number.
THREADS_MAX = 64

#: Exceptions whose text alone is no sentence.
_TERSE = (KeyError, StopIteration, SystemExit)

#: A function that executes nodes, as a type checker sees it.
Function = TypeVar("Function", bound=Callable[[NodeContext], Any])


def default_threads(asked: int | None) -> int:
    """The number of threads: what is asked for, else `THREADS_MAX`. Threads start only when they are needed."""
    if asked is None:
        return THREADS_MAX
    if asked < 1:
        raise ValueError(f"threads must be at least 1, not {asked}")
    return asked


class Executors:
    """The functions of one engine or worker, and the threads and loops on which they run."""

    def __init__(self, what: str, threads: int) -> None:
        self._what = what
        self._functions: list[Callable[..., Any]] = []
        self._registrations: list[tuple[str, str, int, bool, str | None]] = []
        self._started = False
        self.threads = Threads(self._run_on_thread, threads, "tidemill-node")
        self.loops = Loops(self._start_on_loop, "tidemill-loop")
        self._tasks: set[asyncio.Task[None]] = set()
        #: True if a function runs on an event loop.
        self.has_coroutines = False

    def node(self, type: str | None, id: str | None, provider: str | None) -> Callable[[Function], Function]:
        """Returns the decorator that registers a function."""
        _check_names("node", type=type, id=id, provider=provider)
        if provider is not None and (id is not None or type not in (None, "tool")):
            raise ValueError('provider belongs to nodes of the type "tool", without an id')
        if provider is not None:
            return functools.partial(self.add, "provider", provider)
        if (type is None) == (id is None):
            raise ValueError("name the type of the nodes, or the id of one node, and not both")
        if id is not None:
            return functools.partial(self.add, "id", id)
        _native.check_node_type(str(type))
        return functools.partial(self.add, "type", str(type))

    def queue(self, name: str) -> Callable[[Function], Function]:
        """Returns the decorator that registers a function for a queue."""
        _check_names("queue", name=name)
        return functools.partial(self.add, "queue", name)

    def calls(self, classes: Iterable[Any]) -> None:
        """Registers Call classes. Raises `CallStandardError` for one that does not meet the standard."""
        from tidemill.calls.serve import serve

        # All are checked before the first one is registered.
        for call, manifest, function in [serve(one) for one in classes]:
            self.add("call", call, function, json.dumps(manifest))

    def add(self, kind: str, name: str, function: Function, manifest: str | None = None) -> Function:
        """Registers a function for a `type`, an `id`, a `provider`, a `queue`, or a `call` with its manifest."""
        if self._started:
            raise RuntimeError(
                f"this {self._what} has started: register functions before its first run, or make another {self._what}"
            )
        if not callable(function):
            raise TypeError(f"a function is needed for the {kind} {name!r}, not {function.__class__.__name__}")
        _check_parameters(function)
        if any((kind, name) == known[:2] for known in self._registrations):
            raise ValueError(f"the {kind} {name!r} has a function already; register one function for it")
        on_thread = not _is_async(function)
        self.has_coroutines = self.has_coroutines or not on_thread
        self._functions.append(function)
        self._registrations.append((kind, name, len(self._functions) - 1, on_thread, manifest))
        return function

    def start(self) -> list[tuple[str, str, int, bool, str | None]]:
        """Takes no more functions; returns the table for the native part."""
        if not self._started:
            self._started = True
            if any(on_thread for _, _, _, on_thread, _ in self._registrations):
                self.threads.start()
        return self._registrations

    def close(self) -> list[threading.Thread]:
        """Ends the threads and the loop; returns those that end soon."""
        return [*self.threads.close(), *self.loops.close()]

    # On a thread.

    def _run_on_thread(self, call: NativeCall) -> None:
        function = self._functions[call.function]
        running = _Running(self.threads, threading.current_thread(), function, call.node_id)
        call.watch(running.cancelled)
        context = NodeContext(call)
        try:
            result: Any = function(context)
            if isinstance(result, Generator):
                result = _drain(call, cast("Generator[Any, None, Any]", result))
            _end(call, function, result)
        except BaseException as error:
            _fail(call, error)
        finally:
            running.has_ended = True

    # On an event loop.

    def _start_on_loop(self, loop: Loop, call: NativeCall) -> None:
        task = loop.create_task(self._run_on_loop(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.watch(functools.partial(_cancel_on_loop, loop, task, call.node_id))

    async def _run_on_loop(self, call: NativeCall) -> None:
        function = self._functions[call.function]
        try:
            result: Any = function(NodeContext(call, emit_waits=False))
            if hasattr(result, "__anext__"):
                result = await _drain_async(call, result)
            elif inspect.isawaitable(result):
                result = await result
            _end(call, function, result)
        except asyncio.CancelledError:
            if not call.cancelled:
                call.fail("CancelledError", "the task of the function was cancelled; its event loop may have ended")
        except BaseException as error:
            _fail(call, error)


def _check_names(decorator: str, **names: Any) -> None:
    """Refuses names that are no texts: most often a decorator without parentheses, which gets the function itself."""
    for what, name in names.items():
        if callable(name) and not isinstance(name, str):
            raise TypeError(f'write @….{decorator}("…") with the {what} in parentheses, not @….{decorator} alone')
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{what}: a str is needed, not {name.__class__.__name__}")
        if name == "":
            raise ValueError(f"{what}: the text is empty")


def _check_parameters(function: Callable[..., Any]) -> None:
    """Refuses a function that cannot be called with one argument, before a run finds out."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some functions written in C do not tell their parameters.
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(f"{_name(function)} must take one argument, a NodeContext: {error}") from None


class _Running:
    """A function that runs on a thread, as the cancellation sees it."""

    __slots__ = ("_function", "_node", "_thread", "_threads", "has_ended")

    def __init__(self, threads: Threads, thread: threading.Thread, function: Callable[..., Any], node: str) -> None:
        self._threads = threads
        self._thread = thread
        self._function = function
        self._node = node
        self.has_ended = False

    def cancelled(self) -> None:
        """Called on the thread of the mailbox."""
        _process.later(GIVE_UP_SECONDS, self._look)

    def _look(self) -> None:
        if not self.has_ended:
            _warn_of_hang(self._function, self._node, "its thread is given up")
            self._threads.give_up(self._thread)


def _cancel_on_loop(loop: Loop, task: asyncio.Task[None], node: str) -> None:
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:
        # The loop is closed, and the task has ended with it.
        return

    def look() -> None:
        if not task.done() and not loop.is_closed():
            _warn_of_hang(task.get_coro(), node, "its result will not be used")

    _process.later(GIVE_UP_SECONDS, look)


def _warn_of_hang(function: Any, node: str, what_follows: str) -> None:
    log.warning(
        "the function %s of node %s still runs %g seconds after it was cancelled; %s",
        _name(function),
        node,
        GIVE_UP_SECONDS,
        what_follows,
    )


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(function, "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in candidates)


def _drain(call: NativeCall, generator: Generator[Any, None, Any]) -> Any:
    """Streams what a generator yields; returns its result."""
    result: Any = None
    try:
        while True:
            if call.cancelled:
                return None
            try:
                piece = next(generator)
            except StopIteration as end:
                return result if end.value is None else end.value
            result = _piece(call, piece, result, waits=True)
    finally:
        generator.close()


async def _drain_async(call: NativeCall, generator: AsyncIterator[Any]) -> Any:
    """Streams what an async generator yields; returns its result."""
    result: Any = None
    try:
        async for piece in generator:
            result = _piece(call, piece, result, waits=False)
            while call.is_full():
                await asyncio.sleep(LOOK_SECONDS)
        return result
    finally:
        close = getattr(generator, "aclose", None)
        if close is not None:
            await close()


def _piece(call: NativeCall, piece: Any, result: Any, *, waits: bool) -> Any:
    """Streams a piece; returns the result, which may be what was yielded."""
    if result is not None:
        raise TypeError("the function has yielded its result already; yield nothing after it")
    if isinstance(piece, str):
        call.emit("text", piece, False, waits)
    elif isinstance(piece, Chunk):
        call.emit(piece.output, piece.text, piece.final, waits)
    elif isinstance(piece, (Mapping, NodeResult, Pause)):
        result = cast("Any", piece)
    else:
        raise TypeError(f"yield str, Chunk, dict, NodeResult or Pause, not {piece.__class__.__name__}")
    return result


def _end(call: NativeCall, function: Callable[..., Any], result: Any) -> None:
    """Tells the result of a function."""
    if result is None:
        call.succeed({})
    elif isinstance(result, Mapping):
        call.succeed(cast("Mapping[str, Any]", result))
    elif isinstance(result, NodeResult):
        call.succeed(
            result.outputs, result.process_data, result.metadata, _checked_tokens(result.tokens), result.handle
        )
    elif isinstance(result, Pause):
        call.pause(result.message, result.schema)
    else:
        raise TypeError(_wrong_result(function, result))


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))


def _checked_tokens(tokens: Any) -> tuple[int, int] | None:
    """The tokens of a result: two whole numbers, or none."""
    if tokens is None:
        return None
    try:
        prompt, completion = (operator.index(one) for one in tokens)
    except (TypeError, ValueError):
        prompt, completion = -1, -1
    if min(prompt, completion) < 0:
        raise TypeError(f"tokens: two whole numbers are needed, (prompt, completion), not {tokens!r}")
    return prompt, completion


def _wrong_result(function: Callable[..., Any], result: Any) -> str:
    """Says what is wrong with a result, and what to write for the kinds that are seen most."""
    name, kind = _name(function), result.__class__.__name__
    message = f"{name} must return dict, NodeResult, Pause or None, not {kind}"
    if inspect.iscoroutine(result):
        # It will not be awaited; closed, it does not warn of that.
        result.close()
    if inspect.isawaitable(result) or hasattr(result, "__anext__"):
        return f"{message}; declare the function with `async def`, so that it runs on an event loop"
    if isinstance(result, str):
        return f'{message}; name the output: {{"text": …}}'
    if hasattr(result, "model_dump"):
        return f'{message}; return its `model_dump(mode="json")`'
    if dataclasses.is_dataclass(result):
        return f"{message}; return its `dataclasses.asdict(…)`"
    return message


def _fail(call: NativeCall, error: BaseException) -> None:
    """Makes an exception the failure of the node."""
    if not call.cancelled:
        log.warning(
            "node %s of run %s has failed (attempt %d)", call.node_id, call.run_id, call.attempt, exc_info=error
        )
    try:
        message = str(error)
    except Exception:
        message = ""
    name = error.__class__.__name__
    # The text of these says only which key or number: "the node has failed: 'name'".
    if type(error) in _TERSE and message:
        message = f"{name}: {message}"
    call.fail(name, message or name)
