"""The program `tidemill` inside the package: the command line, and the helper that code nodes need.

`make wheel` puts it into `bin/` beside this file. A package that was built without it (`pip install ./python`) uses the
one that `TIDEMILL_PROGRAM` names, or the one on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

#: Names a program to use in place of the packaged one.
VARIABLE = "TIDEMILL_PROGRAM"

_PACKAGED = Path(__file__).parent / "bin" / "tidemill"


def given() -> str | None:
    """Returns the path of the program that `TIDEMILL_PROGRAM` names, or of the packaged one.

    Engines and workers use it as the helper of code nodes. Without it they look for one themselves.
    """
    if named := os.environ.get(VARIABLE):
        return named
    return str(_PACKAGED) if _PACKAGED.is_file() else None


def main() -> None:
    """The command `tidemill`: this process becomes the program."""
    program = given() or _on_path()
    if program is None:
        sys.exit(
            "tidemill: this package was built without the program; build a wheel with `make wheel` in Tidemill's"
            f" repository, or name a program with {VARIABLE}"
        )
    try:
        os.execv(program, ["tidemill", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tidemill: cannot start {program}: {error.strerror}")


def _on_path() -> str | None:
    """Returns a `tidemill` on the path that is a program, and not the script that calls `main`."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("tidemill", path=folder) if folder else None
        if found and not _is_script(found):
            return found
    return None


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
