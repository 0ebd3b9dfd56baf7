"""Finds the program `tidemill` of this installation: the helper of code nodes and documents.

`make wheel` puts it into the wheel as a script, so pip installs it beside the `python` of the environment. A package
that was built without it (`pip install ./python`) has none; then the engine looks for one on the path.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

#: The setting `code.helper` of the environment, which names a helper program.
HELPER = "TIDEMILL_CODE_HELPER"


def helper() -> str | None:
    """Returns the program of this installation, for engines and workers that were not given another one.

    Returns `None` if there is none, or if the environment names one: then the engine finds it.
    """
    if os.environ.get(HELPER):
        return None
    places = [*_recorded(), Path(__file__).parents[1] / "bin" / "tidemill"]
    return next((str(place) for place in places if place.is_file()), None)


def _recorded() -> list[Path]:
    """The scripts that pip has noted for this package."""
    try:
        files = distribution("tidemill").files or []
    except PackageNotFoundError:
        return []
    # A package or a module of this name is below the folder `tidemill`; a script is not.
    return [Path(str(file.locate())).resolve() for file in files if file.name == "tidemill"]
