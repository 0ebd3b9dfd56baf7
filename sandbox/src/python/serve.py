"""The fork server of Python code. It starts confined (confine/mod.rs) and has loaded the most common modules.

The server itself receives no program and sees no output. For each execution the worker sends one byte and three
descriptors: for the program, the output and the error output; a fourth if the program may use the network (network.py).
The server forks a child, which confines itself further, reads the program and runs it. The server supervises the child and reports its end as a line of JSON. So
executions share no memory, and code cannot send a verdict in the server's name, because it never has the control
descriptor.

When the control descriptor is closed, the server kills the running child, deletes the scratch folders, and ends.
"""

import ast, base64, bisect, builtins, calendar, collections, contextlib, copy, csv, ctypes, dataclasses, datetime
import decimal, enum, errno, functools, gc, hashlib, heapq, hmac, html, importlib, io, itertools, json, linecache, math, operator
import os, random, re, resource, select, shutil, signal, socket, stat, statistics, string, struct, sys, textwrap, time
import traceback, types, typing, unicodedata, urllib.parse, uuid

SETTINGS = json.loads(sys.argv[1])
SCRATCH = SETTINGS["scratch"]
FILE = "<code>"
CHECK_SECONDS = 0.05
KEPT_COMPLAINTS = 64 * 1024
DESCRIPTORS = 4 if SETTINGS["network"] else 3
CALL = compile("output_obj = main(**inputs_obj)", "<node>", "exec")

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS")

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1, 4, 22, 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
WRITE_FILE, READ_FILE, READ_DIR, REMOVE_FILE, MAKE_REG, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 5, 1 << 8, 1 << 14


class RulesetAttributes(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


FILTER_STEPS = base64.b64decode(SETTINGS["filter"])
FILTER = FilterProgram(len(FILTER_STEPS) // 8, FILTER_STEPS)


def must(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number, *arguments):
    return LIBC.syscall(ctypes.c_long(number), *arguments)


# ---- files ---------------------------------------------------------------------

LANDLOCK = syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))


def rights():
    """All file rights the kernel knows, and the size of its rule structure, by landlock version."""
    files = (1 << 13) - 1
    for version, right in ((2, 13), (3, 14), (5, 15)):
        files |= (1 << right) if LANDLOCK >= version else 0
    return files, 24 if LANDLOCK >= 6 else 16 if LANDLOCK >= 4 else 8


def open_paths():
    """Opens the paths a child may read, once; returns each with its rights."""
    found = []
    for path in SETTINGS["reads"] + ["/dev/null"]:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        allowed = READ_FILE | READ_DIR if folder else READ_FILE
        if path == "/dev/null":
            allowed |= WRITE_FILE | TRUNCATE
        found.append((descriptor, allowed))
    return found


def restrict_files(folder):
    if LANDLOCK < 1:
        return  # The helper that became this process already allowed weaker confinement.
    files, size = rights()
    attributes = RulesetAttributes(files, 3, 3)
    ruleset = must(syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0))
    scratch = os.open(folder, os.O_PATH)
    own = READ_FILE | READ_DIR | WRITE_FILE | REMOVE_FILE | MAKE_REG | TRUNCATE
    for descriptor, allowed in PATHS + [(scratch, own)]:
        rule = PathRule(allowed & files, descriptor)
        must(syscall(LANDLOCK_ADD_RULE, ruleset, 1, ctypes.byref(rule), 0))
    must(syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))


# ---- the child -------------------------------------------------------------------


def child(server, descriptors, folder):
    """Runs the program in the child process. Never returns."""
    try:
        code, inputs = prepare(server, descriptors, folder)
    except BaseException as error:
        os.write(2, f"the code was not run, since it cannot be confined: {error!r}\n".encode())
        os._exit(125)
    os._exit(run(code, inputs))


def prepare(server, descriptors, folder):
    os.setsid()
    must(LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0))
    if os.getppid() != server:
        os._exit(125)
    program, output, complaints, *outside = descriptors
    os.dup2(output, 1)
    os.dup2(complaints, 2)
    code, inputs = read_program(program)
    os.environ.update(HOME=folder, TMPDIR=folder)
    os.chdir(folder)
    random.seed()
    restrict_files(folder)
    if outside:
        os.dup2(outside[0], ASK, inheritable=False)
    os.closerange(3 + len(outside), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    seconds = -(-SETTINGS["timeout_ms"] // 1000) + 1
    for what, most in (
        (resource.RLIMIT_AS, SETTINGS["memory_bytes"]),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, SETTINGS["scratch_bytes"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    must(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(FILTER), 0, 0))
    if outside:
        let_out(SETTINGS["network"])
    sys.addaudithook(explain)
    return code, inputs


def read_program(descriptor):
    with open(descriptor, "rb") as source:
        code, inputs = struct.unpack("<II", source.read(8))
        return source.read(code).decode(), source.read(inputs).decode()


def run(code, inputs):
    main = types.ModuleType("__main__")
    names = main.__dict__
    names["__builtins__"] = builtins
    sys.modules["__main__"] = main
    status = 0
    try:
        exec(compile(code, FILE, "exec", dont_inherit=True), names)
        # Dify's program imports these after the user's code, so code without its own imports works too.
        names.update(json=json, b64decode=base64.b64decode, inputs_obj=json.loads(inputs))
        exec(CALL, names)
        text = json.dumps(names["output_obj"], indent=4)
        print(f"<<RESULT>>{text}<<RESULT>>")
    except SystemExit as error:
        status = leave(error.code)
    except BaseException as error:
        complain(error, code)
        status = 1
    for stream in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
        try:
            stream.flush()
        except BaseException:
            pass
    return status


def leave(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    os.write(2, str(code).encode(errors="replace")[:KEPT_COMPLAINTS] + b"\n")
    return 1


def complain(error, code):
    """Writes the traceback as Python prints it, starting at the user's code."""
    try:
        linecache.cache[FILE] = (len(code), None, code.splitlines(True), FILE)
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename not in (FILE, "<node>"):
            frames = frames.tb_next
        text = "".join(traceback.format_exception(type(error), error, frames))
        if is_denial(error):
            text += NOTE
    except BaseException:
        text = f"{type(error).__name__}\n"
    os.write(2, text.encode(errors="replace")[-KEPT_COMPLAINTS:])


# ---- denials ---------------------------------------------------------------------
# The kernel denies the calls. These hooks only give a better message than "Operation not permitted".

NOTE = "A code node may not use the network, start processes or threads, reach other processes or change the rights of files.\n"
NETWORK, PROCESSES = "network access is not allowed", "starting processes is not allowed"
HINT = " (code.network lets it call servers by HTTP)"
if SETTINGS["network"]:
    NOTE = NOTE.replace("use the network", "use the network except by HTTP through its proxy")
    NETWORK, HINT = "network access except through the proxy in HTTP_PROXY is not allowed", ""
THREADS, SIGNALS = "starting threads is not allowed", "signalling processes is not allowed"
LINKS = "making links, folders and devices is not allowed"
DENIED = {
    **dict.fromkeys(("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname"), NETWORK),
    **dict.fromkeys(("socket.gethostbyaddr", "socket.getnameinfo", "socket.sendto", "socket.sendmsg"), NETWORK),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty"), PROCESSES),
    **dict.fromkeys(("os.posix_spawn", "os.spawn", "pty.spawn"), PROCESSES),
    **dict.fromkeys(("_thread.start_new_thread", "_thread.start_joinable_thread"), THREADS),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), SIGNALS),
    **dict.fromkeys(("os.link", "os.symlink", "os.mkdir"), LINKS),
}


def explain(event, arguments):
    denied = DENIED.get(event)
    # With the network, sockets are made around connections that the worker gave.
    if event == "socket.__new__" and arguments[1] != socket.AF_UNIX and not SETTINGS["network"]:
        denied = NETWORK
    if denied:
        raise PermissionError(errno.EPERM, f"{denied} in a code node{HINT if denied is NETWORK else ''}")


def is_denial(error):
    if isinstance(error, OSError):
        return error.errno == errno.EPERM and "code node" not in str(error)
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


# ---- the server ----------------------------------------------------------------------


def say(what):
    """Sends a message to the worker. If the worker is gone, the next read fails too."""
    with contextlib.suppress(ConnectionError):
        CONTROL.sendall(json.dumps(what).encode() + b"\n")


def serve(number):
    """Runs one execution. Returns False when there are no more."""
    try:
        message, descriptors, _, _ = socket.recv_fds(CONTROL, 1, DESCRIPTORS)
    except ConnectionError:
        return False
    if not message:
        return False
    folder = os.path.join(SCRATCH, str(number))
    os.mkdir(folder, 0o700)
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        child(server, descriptors, folder)
    for descriptor in descriptors:
        os.close(descriptor)
    verdict = watch(pid, folder)
    if verdict is not None:
        say(verdict)
    shutil.rmtree(folder, ignore_errors=True)
    return verdict is not None


def watch(pid, folder):
    """Waits for the child's end, and kills it when it exceeds a limit. Returns None when the worker is gone."""
    deadline = time.monotonic() + SETTINGS["timeout_ms"] / 1000
    handle = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    poller.register(CONTROL, select.POLLIN)
    verdict = {"end": "exit"}
    while True:
        left = deadline - time.monotonic()
        ready = [descriptor for descriptor, _ in poller.poll(max(0, min(left, CHECK_SECONDS)) * 1000)]
        if handle in ready:
            break
        if ready:
            verdict = None
        elif left <= 0:
            verdict = {"end": "timeout"}
        elif used(folder) > SETTINGS["scratch_bytes"]:
            verdict = {"end": "scratch"}
        else:
            continue
        os.kill(pid, signal.SIGKILL)
        break
    os.close(handle)
    _, status = os.waitpid(pid, 0)
    return ending(status) if verdict == {"end": "exit"} else verdict


def used(folder):
    """Bytes in a scratch folder, which has no subfolders. Each file counts at least 4 KiB, so empty files count too."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                total += 4096 + entry.stat(follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def ending(status):
    if os.WIFEXITED(status):
        return {"end": "exit", "code": os.WEXITSTATUS(status)}
    number = os.WTERMSIG(status)
    if number == signal.SIGXCPU:
        return {"end": "processor"}
    names = {int(known): known.name for known in signal.Signals}
    return {"end": "signal", "name": names.get(number, str(number))}


CONTROL = socket.socket(fileno=os.dup(0))
null = os.open("/dev/null", os.O_RDWR)
os.dup2(null, 0)
os.close(null)
PATHS = open_paths()
if sys.prefix != sys.base_prefix:
    # Libraries of an environment may start a thread for each processor, which no child may.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
for module in SETTINGS["preload"]:
    try:
        importlib.import_module(module)
    except Exception as error:
        print(f"code.python.preload: {module} cannot be imported: {error!r}", file=sys.stderr, flush=True)
must(LIBC.prctl(PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0))
sys.argv = [""]
gc.collect()
gc.freeze()
say({"python": "%d.%d.%d" % sys.version_info[:3], "landlock": LANDLOCK})
try:
    for number in itertools.count():
        if not serve(number):
            break
finally:
    shutil.rmtree(SCRATCH, ignore_errors=True)
