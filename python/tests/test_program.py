"""How engines and workers find the program of their installation. `make wheel-test` tries it with a real wheel."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from tidemill import _program


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_program: bool) -> Path:
    """Makes an installation as pip leaves it. Returns the place of its program."""
    monkeypatch.delenv(_program.HELPER)
    info = tmp_path / "lib" / "tidemill-0.1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "tidemill"
    script.write_bytes(b"\x7fELF")
    record = ["tidemill/__init__.py,,", "tidemill-0.1.0.dist-info/METADATA,,"]
    (info / "RECORD").write_text("\n".join([*record, "../bin/tidemill,,"] if has_program else record))
    monkeypatch.setattr(_program, "distribution", lambda _: PathDistribution(info))
    return script


def test_the_program_that_pip_has_installed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = install(tmp_path, monkeypatch, has_program=True)
    assert _program.helper() == str(script)


def test_a_program_of_another_installation_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, has_program=False)
    assert _program.helper() is None


def test_the_setting_of_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, has_program=True)
    monkeypatch.setenv(_program.HELPER, "/some/tidemill")
    assert _program.helper() is None


def test_a_package_that_is_not_installed_has_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> PathDistribution:
        raise PackageNotFoundError("tidemill")

    monkeypatch.delenv(_program.HELPER)
    monkeypatch.setattr(_program, "distribution", missing)
    assert _program.helper() is None
