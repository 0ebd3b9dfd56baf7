"""The command `tidemill` that `pip install` brings, and how engines find their helper program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet import ROOT, program
from tidemill import _program


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as the script of an installation does."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "python" / "src")}
    return subprocess.run(
        [sys.executable, "-m", "tidemill._program", *arguments],
        env={**own, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_becomes_the_program() -> None:
    done = command("--version", TIDEMILL_PROGRAM=str(program("tidemill")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tidemill ")


def test_its_exit_status_is_that_of_the_program() -> None:
    done = command("run", "missing.yml", TIDEMILL_PROGRAM=str(program("tidemill")))
    assert done.returncode != 0
    assert "missing.yml" in done.stderr


def test_without_a_program_it_says_what_to_do(tmp_path: Path) -> None:
    done = command("--version", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "make wheel" in done.stderr


def test_a_script_on_the_path_is_not_taken_for_the_program(tmp_path: Path) -> None:
    script = tmp_path / "tidemill"
    script.write_text(f"#!{sys.executable}\nfrom tidemill._program import main\nmain()\n")
    script.chmod(0o755)
    done = command("--version", PATH=str(tmp_path))
    assert "make wheel" in done.stderr


def test_a_program_on_the_path_is_found_after_the_script(tmp_path: Path) -> None:
    done = command("--version", PATH=f"{tmp_path}{os.pathsep}{program('tidemill').parent}")
    assert done.returncode == 0, done.stderr


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    done = command("--version", TIDEMILL_PROGRAM=str(missing))
    assert done.returncode == 1
    assert str(missing) in done.stderr


def test_engines_get_the_program_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_PROGRAM", "/some/tidemill")
    assert _program.given() == "/some/tidemill"
    monkeypatch.delenv("TIDEMILL_PROGRAM")
    monkeypatch.setattr(_program, "_PACKAGED", program("tidemill"))
    assert _program.given() == str(program("tidemill"))
