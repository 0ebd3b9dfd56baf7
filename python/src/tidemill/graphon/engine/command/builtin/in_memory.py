"""A command channel inside of one process."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from ..entities import Command


class InMemoryChannel:
    """A command channel inside of one process. Any thread may send."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Command] = SimpleQueue()

    def fetch_commands(self) -> list[Command]:
        """Return the commands that have come since the last call."""
        found: list[Command] = []
        while True:
            try:
                found.append(self._queue.get_nowait())
            except Empty:
                return found

    def send_command(self, command: Command) -> None:
        """Send a command."""
        self._queue.put(command)
