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


def find() -> Path | None:
    """Returns the program: the one that `TIDEMILL_PROGRAM` names, else the packaged one, else one on the path.

    Returns `None` if there is no program.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if _PACKAGED.is_file():
        return _PACKAGED
    return _on_path()


def main() -> None:
    """The command `tidemill`: this process becomes the program."""
    program = find()
    if program is None:
        sys.exit(
            "tidemill: this package was built without the program; build a wheel with `make wheel` in Tidemill's"
            f" repository, or name a program with {VARIABLE}"
        )
    try:
        os.execv(program, ["tidemill", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tidemill: cannot start {program}: {error.strerror}")


def _on_path() -> Path | None:
    """Returns a `tidemill` on the path that is a program, and not the script that calls `main`."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("tidemill", path=folder) if folder else None
        if found and not _is_script(found):
            return Path(found)
    return None


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
