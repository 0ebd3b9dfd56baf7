"""Tries what a plugin may not do, and reports what happened to each attempt: `done`, or the error of the system."""

import ctypes
import errno
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from gevent import monkey

from dify_plugin import Tool

SOCKET = monkey.get_original("socket", "socket")
LIBC = ctypes.CDLL(None, use_errno=True)
# A signal that is blocked does not come.
HANDLER = """
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
os.kill(os.getpid(), signal.SIGTERM)
os._exit(2)
"""


def call(number, *arguments):
    result = LIBC.syscall(number, *arguments)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def clone():
    if call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def in_child(code):
    lines = "".join(f"    {line}\n" for line in code.strip().splitlines())
    program = f"import errno, os, signal\ntry:\n{lines}except OSError as error:\n    os._exit(100 + error.errno)\n"
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", program], {})
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > 100:
        raise OSError(code - 100, "in a child")
    if code:
        raise ValueError(f"a child ends with {code}")


def connect(family, kind, address, protocol=0):
    with SOCKET(family, kind, protocol) as one:
        one.settimeout(2)
        one.connect(address)


def listen():
    with SOCKET(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.listen()


def own_file():
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("x")


def large_file():
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 40)


def mask():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    if blocked:
        raise ValueError(f"blocked: {blocked}")


class Attempt(Tool):
    def _invoke(self, tool_parameters):
        pid, port, port6 = (int(tool_parameters[name]) for name in ("pid", "port", "port6"))
        own = tool_parameters["own"]
        attempts = {
            # What it may do.
            "own file": own_file,
            "thread": lambda: threading.Thread(target=lambda: None).start(),
            "child": lambda: in_child("pass"),
            "own processors": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
            "signal mask": mask,
            "handler": lambda: in_child(HANDLER),
            # These do nothing.
            "chmod": lambda: os.chmod(own, 0o777),
            "utime": lambda: os.utime(own, (1, 1)),
            # What it may not do.
            "another port": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
            "ipv6": lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", port6)),
            "datagram": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)),
            "mptcp": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port), 262),
            "unix socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0tidemill-test"),
            "listen": listen,
            "signal": lambda: os.kill(pid, 0),
            "limits of another": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (10, 10)),
            "processors of another": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)),
            "own limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)),
            # The first process leads a group already, so it could not in any case.
            "session": lambda: in_child("os.setsid()"),
            "group": lambda: in_child("os.setpgid(0, 0)"),
            "large file": large_file,
            "shared memory": lambda: mmap.mmap(-1, 4096),
            "shell": lambda: subprocess.run(["/bin/sh", "-c", ":"], check=True),
            "own package": lambda: open("written", "w").close(),
            "truncate": lambda: os.truncate(own, 0),
            "write": lambda: open(own, "w").close(),
        }
        # Their numbers are those of one kind of machine.
        calls = {
            "ptrace": lambda: call(101, 16, pid, 0, 0),
            "namespace": lambda: call(272, 0x10000000),
            "clone": clone,
            "keys": lambda: call(250, 0, -3, 1, 0, 0),
            "bpf": lambda: call(321, 0, (ctypes.c_uint32 * 18)(2, 4, 4, 1), 72),
            "io_uring": lambda: call(425, 1, (ctypes.c_uint8 * 120)()),
            "memory file": lambda: call(319, b"x", 0),
            "shared memory of System V": lambda: call(29, 0, 4096, 0o600 | 0o1000),
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
            except OSError as error:
                outcome[name] = errno.errorcode.get(error.errno, repr(error))
            except BaseException as error:
                outcome[name] = repr(error)
        outcome["environment"] = sorted(os.environ)
        outcome["user"] = os.getuid()
        yield self.create_json_message(outcome)
