"""Tries what a plugin may not do, and reports what happened to each attempt."""

import ctypes
import os
import platform
import resource
import signal
import socket
import subprocess
import tempfile
import threading

from gevent import monkey

from dify_plugin import Tool

SOCKET = monkey.get_original("socket", "socket")
LIBC = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    if LIBC.syscall(number, *arguments) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def connect(family, kind, address, protocol=0):
    with SOCKET(family, kind, protocol) as one:
        one.settimeout(2)
        one.connect(address)


def listen():
    with SOCKET(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.listen()


def signals(pid):
    os.kill(int(pid), 0)


def own_file():
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("x")


def large_file():
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 40)


class Attempt(Tool):
    def _invoke(self, tool_parameters):
        pid, port = int(tool_parameters["pid"]), int(tool_parameters["port"])
        attempts = {
            # What it may do.
            "own file": own_file,
            "thread": lambda: threading.Thread(target=lambda: None).start(),
            "child": lambda: os.waitpid(os.posix_spawn(os.sys.executable, ["python", "-c", ""], {}), 0),
            # What it may not do.
            "another port": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
            "ipv6": lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", port)),
            "datagram": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)),
            "mptcp": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port), 262),
            "unix socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0tidemill-test"),
            "listen": listen,
            "signal": lambda: signals(pid),
            "limits of another": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (10, 10)),
            "own limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)),
            "session": os.setsid,
            "large file": large_file,
            "shell": lambda: subprocess.run(["/bin/sh", "-c", ":"], check=True),
            "own package": lambda: open("written", "w").close(),
        }
        # Their numbers are those of one kind of machine.
        calls = {
            "ptrace": lambda: call(101, 16, pid, 0, 0),
            "namespace": lambda: call(272, 0x10000000),
            "clone": lambda: call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
            "keys": lambda: call(250, 0, 0, 0, 0, 0),
            "bpf": lambda: call(321, 0, 0, 0),
            "io_uring": lambda: call(425, 1, 0),
            "memory file": lambda: call(319, b"x", 0),
            "shared memory": lambda: call(29, 0, 4096, 0o600 | 0o1000),
        }
        if platform.machine() == "x86_64":
            attempts |= calls
        for path in tool_parameters["paths"]:
            attempts[f"read {path}"] = lambda path=path: (os.listdir if os.path.isdir(path) else open)(path)
        outcome = {}
        for name, attempt in attempts.items():
            try:
                attempt()
                outcome[name] = "done"
            except BaseException as error:
                outcome[name] = type(error).__name__
        outcome["environment"] = sorted(os.environ)
        outcome["user"] = os.getuid()
        yield self.create_json_message(outcome)
