"""The compiled part of the package. Programs use what `tidemill` itself offers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

def version() -> str:
    """The version of the package."""

def log(level: str = "info", format: Literal["auto", "text", "json"] = "auto") -> None:
    """Starts the log of the engine's own lines on standard error. Without this only warnings and errors are written.

    `level` is `off`, `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,tidemill_worker=debug`.
    Call it before the first engine or worker.
    """

def check_node_type(name: str) -> None:
    """Raises `ValueError` for a node type that does not exist, or that only the engine executes."""

def letters(milliseconds: int | None = None) -> list[tuple[Callable[..., Any], NativeCall | None]] | None:
    """Waits for functions to call and their arguments; `None` once the mailbox is closed."""

def close_mailbox() -> None:
    """Ends the thread that waits in `letters`."""

@final
class NativeQueue:
    """The calls that wait for a thread."""

    def __new__(cls) -> NativeQueue: ...
    def take(self) -> tuple[NativeCall, int] | None:
        """Waits for a call; returns it with the number of threads that wait still, or `None` once it is closed."""

    def close(self) -> None:
        """Ends the threads that wait, and gives up the calls that wait."""

@final
class NativeCall:
    """One attempt of a node."""

    @property
    def function(self) -> int: ...
    @property
    def run_id(self) -> str: ...
    @property
    def execution_id(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def app(self) -> str | None: ...
    @property
    def node_id(self) -> str: ...
    @property
    def node_type(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def cancelled(self) -> bool: ...
    def config(self) -> dict[str, Any]: ...
    def inputs(self) -> dict[str, Any]: ...
    def messages(self) -> list[dict[str, Any]]: ...
    def answer(self) -> Any: ...
    def answers(self) -> list[Any]: ...
    def render(self, text: str) -> str: ...
    def get(self, selector: Sequence[str]) -> Any: ...
    def emit(self, output: str, text: str, is_final: bool, wait: bool) -> None: ...
    def is_full(self) -> bool: ...
    def succeed(
        self,
        outputs: Mapping[str, Any],
        process_data: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        tokens: tuple[int, int] | None = None,
        handle: str | None = None,
    ) -> None: ...
    def fail(self, class_: str, message: str, /) -> None: ...
    def pause(self, message: str, schema: Mapping[str, Any] | None = None) -> None: ...
    def watch(self, function: Callable[[], None]) -> None:
        """Has a function called when the attempt is cancelled; soon if that has happened."""

@final
class NativeEvent:
    """One event."""

    @property
    def type(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def time(self) -> float: ...
    def data(self) -> dict[str, Any]: ...
    def document(self, times: Literal["iso", "unix"]) -> dict[str, Any]: ...

@final
class NativeEvents:
    """The events of a run, for one reader."""

    def next(self, milliseconds: int) -> list[NativeEvent] | None:
        """Waits for events. `None`: there are none yet; an empty list: there will be none."""

    def when_ready(self, function: Callable[[], None]) -> None:
        """Has a function called when `take` has events."""

    def take(self) -> list[NativeEvent]:
        """The events that `when_ready` has waited for. An empty list: there will be none."""

@final
class NativeOutcome:
    """The end of a run, or its next pause."""

    def wait(self, milliseconds: int) -> bool:
        """Returns true if it is there."""

    def when_ready(self, function: Callable[[], None]) -> None:
        """Has a function called when it is there."""

    def take(self) -> tuple[str, dict[str, Any], int, str, list[dict[str, Any]]] | None:
        """Status, outputs, number of exceptions, error or reason, pauses."""

@final
class NativeRun:
    """A run."""

    @property
    def id(self) -> str: ...
    @property
    def conversation(self) -> str | None: ...
    def events(self) -> NativeEvents: ...
    def outcome(self) -> NativeOutcome: ...
    def show(self) -> dict[str, Any]: ...
    def pauses(self) -> list[dict[str, Any]]: ...
    def answer(self, pause: str, answer: Mapping[str, Any]) -> None: ...
    def stop(self, reason: str) -> None: ...
    def pause(self, reason: str) -> None: ...
    def resume(self) -> None: ...
    def update(self, values: Mapping[str, Any]) -> None: ...
    def snapshot(self) -> bytes: ...

@final
class NativeEngine:
    """An engine."""

    def __new__(
        cls,
        settings: Any,
        tidemill: str | None,
        registrations: Sequence[tuple[str, str, int, bool, str | None]],
        threads: NativeQueue,
        on_loop: Callable[[NativeCall], None],
    ) -> NativeEngine: ...
    def run(self, workflow: str, request: Mapping[str, Any]) -> NativeRun: ...
    def resume(self, snapshot: bytes) -> NativeRun: ...
    def find(self, id: str) -> NativeRun: ...
    def advance(self, micros: int) -> None: ...
    def lacks(self) -> list[str]: ...
    def close(self, wait_for_nodes: bool) -> None: ...

@final
class NativeWorker:
    """A worker of a fleet."""

    def __new__(
        cls,
        settings: Any,
        asked: Mapping[str, Any],
        registrations: Sequence[tuple[str, str, int, bool, str | None]],
        threads: NativeQueue,
        on_loop: Callable[[NativeCall], None],
    ) -> NativeWorker: ...
    @property
    def consumer(self) -> str: ...
    @property
    def address(self) -> str | None: ...
    def jobs_held(self) -> int: ...
    def is_running(self) -> bool: ...
    def stop(self, grace: float | None = None) -> None: ...
