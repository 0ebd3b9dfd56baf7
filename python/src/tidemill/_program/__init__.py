"""The program `tidemill` inside the package: the command line, and the helper that code nodes need.

`make wheel` puts it into `bin/` beside this file. A package that was built without it (`pip install ./python`) uses the
one on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

#: The setting `code.helper` of the environment, which names a helper program.
HELPER = "TIDEMILL_CODE_HELPER"

_PACKAGED = Path(__file__).parent / "bin" / "tidemill"


def helper() -> str | None:
    """Returns the packaged program as the helper of engines and workers that were not given another one.

    Returns `None` if there is none, or if the environment names one: then the engine finds it.
    """
    if os.environ.get(HELPER):
        return None
    return str(_PACKAGED) if _PACKAGED.is_file() else None


def main() -> None:
    """The command `tidemill`: this process becomes the program."""
    program = str(_PACKAGED) if _PACKAGED.is_file() else _on_path()
    if program is None:
        sys.exit(
            "tidemill: this package was built without the program, and there is none on the path; build a wheel with "
            "`make wheel` in Tidemill's repository, and install that"
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
