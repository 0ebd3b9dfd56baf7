"""A real fleet for tests: redis-server on a socket, a mock model, a scheduler, and as many workers as a test wants."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "debug"
KEY = "the-admin-key-of-python-tests"
#: The longest wait for a process, in seconds. A busy machine starts one slowly.
PATIENCE = 60.0
#: Variables that would change the settings of a process.
FOREIGN = ("TIDEMILL_", "OPENAI_", "WORKFLOW_")

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, seconds: float = PATIENCE) -> T:
    """Repeats a look until it returns something, and fails if it takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def program(name: str) -> Path:
    """Returns a program that cargo has built."""
    path = PROGRAMS / name
    assert path.is_file(), f"{path} is missing: `make python-tests` builds it"
    return path


class Process:
    """One process, with its log in a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder
            )

    @property
    def pid(self) -> int:
        return self.child.pid

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def said(self, pattern: str) -> str:
        """Waits until a line of the log matches, and returns its first group."""

        def look() -> str | None:
            if found := re.search(pattern, self.text()):
                return found[1]
            assert self.child.poll() is None, f"{self.name} has ended:\n{self.text()[-4000:]}"
            return None

        return until(look, f"{pattern} in the log of {self.name}")

    def kill(self) -> None:
        """Kills it at once, as `kill -9` does."""
        self.child.kill()
        self.child.wait()

    def stop(self, seconds: float = 10.0) -> int:
        """Asks it to stop, and kills it if it does not. Returns its exit status."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.child.returncode


class Fleet:
    """Redis and a scheduler. `settings` is a mapping of sections, `model` a file of rules for a mock model."""

    def __init__(self, settings: Mapping[str, Mapping[str, Any]] | None = None, model: Path | None = None) -> None:
        # The path of a socket may have about 100 characters, so pytest's folders are too deep.
        self.folder = Path(tempfile.mkdtemp(prefix="tidemill-py-"))
        self.processes: list[Process] = []
        self.settings: dict[str, dict[str, Any]] = {
            "redis": {"url": f"unix://{self.folder}/redis.sock"},
            "scheduler": {"listen": "127.0.0.1:0", "admin_key": KEY},
            "worker": {"listen": ""},
            "log": {"format": "json"},
        }
        for section, values in (settings or {}).items():
            self.settings.setdefault(section, {}).update(values)
        try:
            self._start(model)
        except BaseException:
            self.close()
            raise

    def _start(self, model: Path | None) -> None:
        redis = shutil.which("redis-server")
        assert redis, "redis-server is missing: `make setup` installs it"
        place = ["--port", "0", "--unixsocket", self.folder / "redis.sock", "--dir", self.folder]
        self.spawn("redis", [redis, *place, "--save", "", "--appendonly", "no"]).said("(Ready|ready) to accept")
        if model is not None:
            command = [program("tidemill"), "mock-llm", model, "--listen", "127.0.0.1:0"]
            self.model_url = self.spawn("model", command).said(r"(?m)^(http\S+)")
            self.settings["providers"] = {"default": {"base_url": self.model_url}}
        self.config = self.folder / "tidemill.toml"
        self.config.write_text(toml(self.settings))
        scheduler = self.spawn("scheduler", [program("tidemill-scheduler"), "--config", self.config])
        self.url = "http://" + scheduler.said(r'"address":"([^"]+)"')

    @property
    def redis_url(self) -> str:
        return str(self.settings["redis"]["url"])

    @property
    def key(self) -> str:
        return KEY

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of its processes: this one's without the settings of a developer."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {**own, **more}

    def spawn(self, name: str, command: Sequence[str | Path], **environment: str) -> Process:
        """Starts a process that ends with the fleet."""
        number = sum(process.name.startswith(name) for process in self.processes)
        process = Process(f"{name}-{number}" if number else name, command, self.folder, self.environment(**environment))
        self.processes.append(process)
        return process

    def worker(self, *arguments: str) -> Process:
        """Starts a worker without functions in Python, and waits until it takes jobs."""
        process = self.spawn("worker", [program("tidemill-worker"), "--config", self.config, *arguments])
        process.said("(worker started)")
        return process

    def close(self) -> None:
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def toml(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Writes settings as TOML. The strings, numbers and lists of settings look the same in JSON."""
    lines: list[str] = []
    tables: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            path = f"{prefix}{name}"
            tables.append(f"[{path}]\n{toml(value, path + '.')}")
        else:
            lines.append(f"{name} = {json.dumps(value)}\n")
    return "".join(lines + tables)
