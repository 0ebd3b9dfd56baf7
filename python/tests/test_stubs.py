"""The stub of the native module says what the module has. mypy and pyright read only the stub."""

from __future__ import annotations

import os
import subprocess
import sys

from fleet import ROOT


def test_the_stub_of_the_native_module_fits_the_module() -> None:
    place = ROOT / "python" / "src"
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "tidemill._native", "--ignore-disjoint-bases"],
        cwd=ROOT / "python",
        env={**os.environ, "MYPYPATH": str(place), "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
