"""Child processes that never outlive this one. Each has its own process group, which is ended with all its processes."""

import os
import signal
import socket
import subprocess
import time

# Time to end after being asked to.
GRACE_SECONDS = 5
SERVER_START_SECONDS = 10
SPEAKS = ("error", "npm error", "tidemill-bench:", "restate:", "bullmq:")


class Failed(Exception):
    """An error, with one line that says what failed and why."""


def run(command, seconds, log, env=None, cwd=None):
    """Runs a command to its end and returns its output. Its error output goes to the file `log`."""
    with open(log, "ab") as errors:
        begin = errors.tell()
        child = start(command, stdout=subprocess.PIPE, stderr=errors, env=env, cwd=cwd)
        try:
            printed, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {seconds} seconds; see {log}") from None
        finally:
            end(child)
    if child.returncode != 0:
        raise Failed(f"{why(log, begin) or f'ended with {child.returncode}'}; see {log}")
    return printed.decode()


def start(command, **more):
    """Starts a program as the leader of a new process group."""
    try:
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, start_new_session=True, **more)
    except OSError as error:
        raise Failed(f"{command[0]} cannot be started: {error.strerror}") from None


def end(child):
    """Asks a program to end, then kills its group in any case, also if Ctrl-C comes again in the meantime."""
    try:
        if child.poll() is None:
            child.terminate()
            child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # No process of the group is left; macOS reports this as the second error.
        child.wait()


def why(log, begin):
    """Returns the line with the reason from the error output of a command."""
    with open(log, errors="replace") as file:
        file.seek(begin)
        lines = [line.strip() for line in file if line.strip()]
    # The programs here begin their error message like this. Of other output, such as a traceback, use the last line.
    told = [line for line in lines if line.lower().startswith(SPEAKS)]
    return " ".join(told[:3] or lines[-1:])[:300]


class Redis:
    """A redis-server with its own port and directory, with the settings that Tidemill is measured with."""

    def __init__(self, program, directory):
        self.port = free_port()
        settings = {
            "port": self.port, "bind": "127.0.0.1", "dir": directory, "save": "", "loglevel": "warning",
            "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction",
            # A rewrite of the file during a measurement would change the figure.
            "auto-aof-rewrite-percentage": 0,
        }
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self.child = start([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        until = time.monotonic() + SERVER_START_SECONDS
        try:
            while not self._answers():
                if self.child.poll() is not None or time.monotonic() > until:
                    raise Failed(f"redis-server does not answer on port {self.port}")
                time.sleep(0.02)
        except BaseException:
            end(self.child)
            raise
        return self

    def __exit__(self, *_):
        end(self.child)

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def free_port():
    """Returns a port that no program listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
