"""The command `tidemill` that `pip install` brings, and how engines find their helper program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill import _program

from fleet import ROOT, program

#: The path of a machine on which the program is installed.
INSTALLED = f"{program('tidemill').parent}{os.pathsep}{os.defpath}"


def command(*arguments: str, path: str = INSTALLED) -> subprocess.CompletedProcess[str]:
    """Runs the command as the script of an installation does."""
    return subprocess.run(
        [sys.executable, "-m", "tidemill._program", *arguments],
        env={"PATH": path, "PYTHONPATH": str(ROOT / "python" / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_becomes_the_program() -> None:
    done = command("--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tidemill ")


def test_its_exit_status_is_that_of_the_program() -> None:
    done = command("run", "missing.yml")
    assert done.returncode != 0
    assert "missing.yml" in done.stderr


def test_without_a_program_it_says_what_to_do(tmp_path: Path) -> None:
    done = command("--version", path=str(tmp_path))
    assert done.returncode == 1
    assert "make wheel" in done.stderr


def test_a_script_on_the_path_is_not_taken_for_the_program(tmp_path: Path) -> None:
    script = tmp_path / "tidemill"
    script.write_text(f"#!{sys.executable}\nfrom tidemill._program import main\nmain()\n")
    script.chmod(0o755)
    done = command("--version", path=str(tmp_path))
    assert "make wheel" in done.stderr


def test_a_program_on_the_path_is_found_after_the_script(tmp_path: Path) -> None:
    (tmp_path / "tidemill").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "tidemill").chmod(0o755)
    done = command("--version", path=f"{tmp_path}{os.pathsep}{INSTALLED}")
    assert done.returncode == 0, done.stderr


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "tidemill"
    broken.write_bytes(b"\x7fELF and nothing more")
    broken.chmod(0o755)
    done = command("--version", path=str(tmp_path))
    assert done.returncode == 1
    assert str(broken) in done.stderr


def test_engines_get_the_packaged_program_unless_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = program("tidemill")
    monkeypatch.setattr(_program, "_PACKAGED", packaged)
    assert _program.helper() is None
    monkeypatch.delenv(_program.HELPER)
    assert _program.helper() == str(packaged)
    monkeypatch.setattr(_program, "_PACKAGED", packaged / "missing")
    assert _program.helper() is None
