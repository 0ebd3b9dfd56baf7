"""Small programs see the same with `tidemill.graphon` as with graphon: classes of events, outputs, states of nodes.

graphon needs Python 3.12 or newer, so its side runs in an interpreter that has it: this one, or the one that
GRAPHON_PYTHON names, or a `python3.13` or `python3.12` on the path. Without one the comparison is left out; what the
programs see here is tested anyway.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from graphon_programs import PROGRAMS, run

FILE = Path(__file__).with_name("graphon_programs.py")
SECONDS_MAX = 60


@functools.cache
def python_with_graphon() -> str | None:
    named = [os.environ.get("GRAPHON_PYTHON"), sys.executable, *map(shutil.which, ("python3.13", "python3.12"))]
    for python in filter(None, named):
        if subprocess.run([python, "-c", "import graphon.engine"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def of_graphon(name: str) -> dict[str, Any]:
    python = python_with_graphon()
    if python is None:
        pytest.skip("left out: no Python with graphon 0.8 was found (3.12 or newer; GRAPHON_PYTHON names one)")
    done = subprocess.run([python, FILE, "graphon", name], capture_output=True, timeout=SECONDS_MAX, check=True)
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_sees_the_same_as_with_graphon(name: str) -> None:
    assert run("tidemill.graphon", name) == of_graphon(name)


def test_a_branch_is_taken_and_the_other_one_skipped() -> None:
    seen = run("tidemill.graphon", "branch")
    assert seen["outputs"] == {"text": "big 5"}
    assert seen["nodes"]["small"] == "skipped"
    assert seen["edges"] == {
        "e1": "taken",
        "e2": "taken",
        "e3": "skipped",
        "e4": "taken",
        "e5": "skipped",
        "e6": "taken",
    }


def test_a_failure_is_an_event_and_an_exception() -> None:
    seen = run("tidemill.graphon", "failure")
    assert seen["events"][-2:] == ["NodeRunFailedEvent", "GraphRunFailedEvent"]
    assert seen["raised"] == "'int object' has no attribute 'y'"


def test_a_paused_run_goes_on_from_the_text_of_its_state() -> None:
    seen = run("tidemill.graphon", "form_of_a_callback")
    assert (seen["sessions"], seen["outputs"]) == (["session-1"], {"note": "fine"})
