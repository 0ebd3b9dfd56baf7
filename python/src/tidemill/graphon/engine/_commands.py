"""Carries commands from a channel to a run."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Any

from ..runtime.variable_pool import VariablePool
from .command.entities import AbortCommand, Command, PauseCommand, UpdateVariablesCommand
from .command.protocol import CommandChannel

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
"""How often a channel is asked for commands while no event comes."""


def apply_before(commands: list[Command], pool: VariablePool) -> list[Command]:
    """Set the variables of commands that came before the run. Return the other commands."""
    rest: list[Command] = []
    for command in commands:
        if isinstance(command, UpdateVariablesCommand):
            for variable in command.updates:
                pool.add(variable.selector, variable)
        else:
            rest.append(command)
    return rest


def stops_after(root: str, commands: list[Command]) -> tuple[dict[str, Any], list[Command]]:
    """Return the field of a submission for pauses that came before the run, and the other commands.

    Such a pause begins after the first node. As a command of its own it could come when the run is over already.
    """
    pauses = [it for it in commands if isinstance(it, PauseCommand)]
    if not pauses:
        return {}, commands
    stop = {"after": root, "command": "pause", "reason": pauses[0].reason}
    return {"commands": [stop]}, [it for it in commands if it not in pauses]


def apply_command(run: Any, command: Command) -> None:
    """Send a command to a run. One that comes too late does nothing."""
    try:
        if isinstance(command, AbortCommand):
            run.stop(command.reason or "User requested abort")
        elif isinstance(command, PauseCommand):
            run.pause(command.reason)
        else:
            run.update({".".join(it.selector): it.value for it in command.updates})
    except Exception as error:
        logger.warning("%s has no effect: %s", type(command).__name__, error)


class Pump:
    """Asks a channel for commands while a run goes on."""

    def __init__(self, run: Any, channel: CommandChannel) -> None:
        self._run = run
        self._channel = channel
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="tidemill-graphon-commands", daemon=True)

    def __enter__(self) -> Pump:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def fetch(self) -> None:
        """Ask now."""
        with self._lock:
            try:
                commands = self._channel.fetch_commands()
            except Exception:
                logger.exception("the command channel cannot be read")
                return
            for command in commands:
                apply_command(self._run, command)

    def _poll(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self.fetch()
