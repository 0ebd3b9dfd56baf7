"""Installs the peers in pinned versions from their registries into the build's own directory.

Packages that are installed already in these versions are used as they are. The first installation needs the network, some
minutes and a little more than 1 GB, most of it for the dependencies of graphon.
"""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from processes import Failed, run

HERE = Path(__file__).parent
INSTALL_SECONDS = 1200
PROBE_SECONDS = 20
NODE_LEAST = (20, 0)
# The Python versions that graphon supports. Celery uses the same one, so that Python makes no difference.
PYTHON_LEAST, PYTHON_MOST = (3, 12), (3, 13)


def python_packages(name, place):
    """Returns the interpreter of an environment with the packages of `requirements-<name>.txt`."""
    program, version = find_python()
    home, wanted = place / name, HERE / f"requirements-{name}.txt"
    interpreter = home / "bin" / "python"
    state = digest(f"{program} {version}", wanted)
    if is_installed(home, state):
        return interpreter
    log = place / f"install-{name}.log"
    shutil.rmtree(home, ignore_errors=True)
    run([program, "-m", "venv", home], INSTALL_SECONDS, log)
    pip = [interpreter, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
    run([*pip, "--requirement", wanted], INSTALL_SECONDS, log)
    (home / "installed").write_text(state)
    return interpreter


def node_packages(place):
    """Returns a directory with our scripts and the packages of `package.json`, so that Node finds the packages."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Failed(f"{program} is not installed (Node {NODE_LEAST[0]} or newer is needed)")
    version = answer_of(["node", "--version"]).lstrip("v")
    if tuple(map(int, version.split(".")[:2])) < NODE_LEAST:
        raise Failed(f"Node {NODE_LEAST[0]} or newer is needed, but {version} is installed")
    home, wanted = place / "node", HERE / "package.json"
    home.mkdir(parents=True, exist_ok=True)
    for source in [wanted, *HERE.glob("*.mjs")]:
        shutil.copy(source, home)
    state = digest(version, wanted)
    if not is_installed(home, state):
        # No package needs its install scripts, so none may run them.
        shutil.rmtree(home / "node_modules", ignore_errors=True)
        install = ["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"]
        run(install, INSTALL_SECONDS, place / "install-node.log", cwd=home)
        (home / "installed").write_text(state)
    return home


def find_python():
    """Returns the newest suitable Python on the path or among the versions of pyenv, which are not on the path."""
    own = os.environ.get("PEERS_PYTHON")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [own] if own else []
    for minor in range(PYTHON_MOST[1], PYTHON_LEAST[1] - 1, -1):
        name = f"python3.{minor}"
        candidates += [name, *sorted(pyenv.glob(f"3.{minor}.*/bin/{name}"), reverse=True)]
    for program in [*candidates, "python3"]:
        found = version_of(program)
        if found and PYTHON_LEAST <= found[:2] <= PYTHON_MOST:
            return program, ".".join(map(str, found))
    span = " to ".join(".".join(map(str, version)) for version in (PYTHON_LEAST, PYTHON_MOST))
    raise Failed(f"needs Python {span}, but none was found; name one with PEERS_PYTHON")


def version_of(program):
    """Returns the version of a program, or None if it is missing or a shim for a missing one."""
    try:
        told = answer_of([program, "-c", "import sys, venv; print(*sys.version_info[:3])"])
    except Failed:
        return None
    return tuple(map(int, told.split()))


def versions(homes):
    """Lists the pinned versions of the compared engines and the Python versions they run on."""
    found = []
    if "node" in homes:
        wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
        found += [f"{name} {version}" for name, version in wanted.items()]
    for kind in sorted(homes.keys() - {"node", "tidemill"}):
        lines = (HERE / f"requirements-{kind}.txt").read_text().splitlines()
        found += [line.replace("==", " ") for line in lines if line.startswith(kind)]
        found.append(f"Python {'.'.join(map(str, version_of(homes[kind])))} for {kind}")
    return ", ".join(found)


def answer_of(command):
    """Returns the output of a short command."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}")
    return done.stdout.strip()


def digest(version, *files):
    """Returns a digest of everything that an installation depends on."""
    return hashlib.sha256(b"\0".join([version.encode(), *(file.read_bytes() for file in files)])).hexdigest()


def is_installed(home, state):
    mark = home / "installed"
    return mark.exists() and mark.read_text() == state
