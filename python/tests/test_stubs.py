"""The stub of the native module says what the module has. mypy and pyright read only the stub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fleet import ROOT

#: What the module has and no stub needs: PyO3 adds it.
ALLOWED = r"tidemill\._native\.__all__"


def test_the_stub_of_the_native_module_fits_the_module(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(ALLOWED)
    place = ROOT / "python" / "src"
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "tidemill._native", "--ignore-disjoint-bases", "--allowlist", allowed],
        cwd=ROOT / "python",
        env={**os.environ, "MYPYPATH": str(place), "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
