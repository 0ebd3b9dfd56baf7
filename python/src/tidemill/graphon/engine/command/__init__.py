"""Commands, and the channels that carry them."""

from .builtin.in_memory import InMemoryChannel
from .entities import AbortCommand, Command, PauseCommand, UpdateVariablesCommand
from .protocol import CommandChannel

__all__ = [
    "AbortCommand",
    "Command",
    "CommandChannel",
    "InMemoryChannel",
    "PauseCommand",
    "UpdateVariablesCommand",
]
