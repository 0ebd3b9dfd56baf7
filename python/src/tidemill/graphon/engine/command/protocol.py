"""What a command channel can do."""

from __future__ import annotations

from typing import Protocol

from .entities import Command


class CommandChannel(Protocol):
    """Carries commands to one run."""

    def fetch_commands(self) -> list[Command]:
        """Return the commands that have come since the last call."""
        ...

    def send_command(self, command: Command) -> None:
        """Send a command."""
        ...
