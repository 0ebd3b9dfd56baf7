"""Runs the code of docs/python*.md and of the package's README, so that it stays true.

The blocks of one section (`##`) are one program, which runs in a folder of its own. A block with a name
beside its language (`yaml hello.yml`) is a file of that folder instead. Where a line prints something and has a
comment, the text of the comment is in the output. A program whose last call does not end, such as
`worker.run()`, is sent SIGTERM once it serves. Addresses and keys that readers replace by their own are replaced
by those of a fleet (`STAND_INS`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet import EXAMPLES, ROOT, Fleet

PAGES = [*sorted((ROOT / "docs").glob("python*.md")), ROOT / "python" / "README.md"]
SECONDS_MAX = 100
#: The words of the pages, and where a fleet has its own.
STAND_INS = {"http://127.0.0.1:8700": "url", "redis://localhost:6379": "redis_url", "THE-ADMIN-KEY": "key"}
SERVES = re.compile(r"^(worker\.run\(\)|asyncio\.run\(serve\(\)\))$", re.MULTILINE)
PRINTED = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Section:
    """The code of one section of a page."""

    page: Path
    title: str
    program: str
    #: The named files of the whole page.
    files: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.page.name}: {self.title}"


def sections(page: Path) -> list[Section]:
    text = page.read_text(encoding="utf-8")
    files = {name: body for _, name, body in BLOCK.findall(text) if name}
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        program = "\n".join(body for kind, name, body in BLOCK.findall(part) if kind == "python" and not name)
        if program:
            found.append(Section(page, part.partition("\n")[0], program, files))
    return found


ALL = [section for page in PAGES for section in sections(page)]


def test_the_pages_have_programs() -> None:
    assert (ROOT / "docs" / "python.md") in {section.page for section in ALL}
    assert len(ALL) >= 8


@pytest.mark.parametrize("section", ALL, ids=lambda section: section.name)
def test_the_code_of_a_page_runs(section: Section, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    program = section.program
    if any(word in program for word in STAND_INS):
        fleet: Fleet = request.getfixturevalue("fleet")
        for word, attribute in STAND_INS.items():
            program = program.replace(word, getattr(fleet, attribute))
    for name, body in section.files.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    (tmp_path / "examples").symlink_to(EXAMPLES)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    status, said = run(tmp_path, is_server=bool(SERVES.search(program)))
    assert status == 0, f"{section.name}: {status}\n{said}"
    for expected in PRINTED.findall(program):
        assert expected in said, f"{section.name}: {expected!r} is not in\n{said}"


def run(folder: Path, *, is_server: bool) -> tuple[int, str]:
    """Runs program.py of a folder, and returns its exit status and its output."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    environment = {**own, "PYTHONPATH": str(ROOT / "python" / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        try:
            if is_server:
                interrupt(child)
            said, _ = child.communicate(timeout=SECONDS_MAX)
        except BaseException:
            child.kill()
            raise
    return child.returncode, said


def interrupt(child: subprocess.Popen[str]) -> None:
    """Sends SIGTERM as soon as the program has a handler for it."""
    caught = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)
    bit = 1 << (signal.SIGTERM - 1)
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end and child.poll() is None:
        found = caught.search(Path(f"/proc/{child.pid}/status").read_text())
        if found and int(found[1], 16) & bit:
            child.send_signal(signal.SIGTERM)
            return
        time.sleep(0.05)
