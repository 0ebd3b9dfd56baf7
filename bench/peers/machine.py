"""Facts that a figure depends on besides the program: the machine, its load, versions, the place of the data."""

import datetime
import os
import platform
import tempfile
from pathlib import Path

from install import HERE, answer_of
from processes import Failed


def facts(redis_server):
    """Returns the facts by name, in the order of the report."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "tidemill": told(["git", "-C", HERE, "describe", "--always", "--dirty", "--tags"]),
        "processor": processor(),
        "cores": str(cores),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{distribution()}, {platform.system()} {platform.release()}",
        "data on": f"{file_system(tempfile.gettempdir())} ({tempfile.gettempdir()})",
        "redis": told([redis_server, "--version"]).partition(" sha=")[0],
        "redis settings": "append-only file, appendfsync everysec, no snapshots, no rewriting, noeviction, loopback",
        "node": told(["node", "--version"]),
        "load before": load(),
    }


def load():
    """Processes that wanted to run, over the last one, five and fifteen minutes: on a quiet machine far fewer than cores."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def told(command):
    try:
        return answer_of(command)
    except Failed:
        return "unknown"


def processor():
    for line in lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return told(["sysctl", "-n", "machdep.cpu.brand_string"]) if platform.system() == "Darwin" else platform.machine()


def distribution():
    for line in lines("/etc/os-release"):
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip('"')
    return platform.platform(terse=True)


def file_system(directory):
    """Returns the kind of file system of a directory. A sync to a file system in memory costs nothing."""
    mounts = [line.split()[1:3] for line in lines("/proc/self/mounts")]
    # If several are mounted at the same place, the last one is visible.
    holding = [(len(point), at, kind) for at, (point, kind) in enumerate(mounts) if holds(point, directory)]
    return max(holding)[2] if holding else "unknown"


def holds(point, directory):
    return Path(point) in [Path(directory).resolve(), *Path(directory).resolve().parents]


def lines(path):
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []
