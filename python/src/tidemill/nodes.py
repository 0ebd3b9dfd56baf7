"""The types that functions for nodes use: what they get (`NodeContext`), and what they may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill._native import NativeCall

__all__ = ["Chunk", "NodeContext", "NodeResult", "Pause"]


@dataclass(frozen=True)
class Chunk:
    """A piece of an output that streams. A generator may yield one, or a `str` for the output `text`."""

    text: str
    output: str = "text"
    #: No other piece of this output follows.
    final: bool = False


@dataclass
class NodeResult:
    """The result of a node. An output that was streamed and is not in `outputs` is made of its pieces."""

    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: Details for the record of the run.
    process_data: Mapping[str, Any] | None = None
    #: Tokens, prices and the like, for the record, with Dify's keys (`total_tokens`, …).
    metadata: Mapping[str, Any] | None = None
    #: The tokens that count for the run and its budget: prompt, completion.
    tokens: tuple[int, int] | None = None
    #: The exit of the node that the run follows, such as a case of a branch; without it `source`.
    handle: str | None = None


@dataclass(frozen=True)
class Pause:
    """Returned by a function: the run pauses until a person answers.

    Then the function is called again from its beginning, and `NodeContext.answer` has the answer.
    """

    message: str
    #: A JSON schema of the answer; any answer fits without one.
    schema: Mapping[str, Any] | None = None


class UnknownInput(KeyError):
    """A function asked for an input that its node does not read."""

    def __str__(self) -> str:
        # KeyError shows its argument as a literal.
        return str(self.args[0])


class Inputs(dict[str, Any]):
    """The inputs of a node. A name that is not there is answered with those that are."""

    def __missing__(self, name: object) -> Any:
        known = ", ".join(sorted(self)) or "nothing; mention a variable in its configuration"
        raise UnknownInput(f"the node reads no {name!r}; it reads {known}")


_ABSENT: Any = object()


class NodeContext:
    """One attempt of a node: what its function gets."""

    __slots__ = ("_call", "_config", "_emit_waits", "_inputs")

    def __init__(self, call: NativeCall, emit_waits: bool = True) -> None:
        self._call = call
        self._emit_waits = emit_waits
        self._config: dict[str, Any] = _ABSENT
        self._inputs: dict[str, Any] = _ABSENT

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._call.run_id

    @property
    def execution_id(self) -> str:
        """The id of the execution: the same for all attempts, and whenever the node is executed again.

        A node is executed at least once, so use this id as the key of effects that must not happen twice.
        """
        return self._call.execution_id

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self._call.attempt

    @property
    def app(self) -> str | None:
        """The id of the app of the run, if it has one."""
        return self._call.app

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._call.node_id

    @property
    def node_type(self) -> str:
        """The type of the node, as in the workflow file."""
        return self._call.node_type

    @property
    def title(self) -> str:
        """The title of the node."""
        return self._call.title

    @property
    def config(self) -> dict[str, Any]:
        """The `data` of the node, as in the workflow file."""
        if self._config is _ABSENT:
            self._config = self._call.config()
        return self._config

    @property
    def inputs(self) -> dict[str, Any]:
        """The values that the node reads.

        Each declared variable is there by its name, each mentioned one as `node.name`, and the parameters of a tool by
        theirs.
        """
        if self._inputs is _ABSENT:
            self._inputs = Inputs(self._call.inputs())
        return self._inputs

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The prompt of an `llm` node, filled in: `role`, `text` and `files`. Empty for other nodes."""
        return self._call.messages()

    @property
    def answer(self) -> Any:
        """The answer to the last pause that this node has asked for; `None` at first."""
        return self._call.answer()

    @property
    def answers(self) -> list[Any]:
        """The answers to all pauses that this node has asked for, in order."""
        return self._call.answers()

    @property
    def cancelled(self) -> bool:
        """True once the result does not count.

        The run was stopped, the time of the node is over, or its job was taken back.
        """
        return self._call.cancelled

    def render(self, text: str) -> str:
        """Replaces each reference `{{#node.name#}}` in a text by its value, as in prompts.

        The values are those that the node's configuration mentions.
        """
        return self._call.render(text)

    def get(self, selector: str | Sequence[str]) -> Any:
        """The value of a selector (`"node.name"`, or a list); `None` if the configuration does not mention it."""
        return self._call.get(selector.split(".") if isinstance(selector, str) else list(selector))

    def emit(self, text: str, output: str = "text", *, final: bool = False) -> None:
        """Streams a piece of an output.

        In a plain function it waits while too much text is under way; in a coroutine it never waits.
        """
        if not isinstance(text, str) or not isinstance(output, str):
            wrong = output if isinstance(text, str) else text
            raise TypeError(f"emit: the text and the output are str, not {wrong.__class__.__name__}")
        self._call.emit(output, text, final, self._emit_waits)

    def __repr__(self) -> str:
        return f"<NodeContext {self.node_id} of run {self.run_id}, attempt {self.attempt}>"
