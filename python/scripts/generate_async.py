"""Makes the client for asyncio from the one without: `python python/scripts/generate_async.py`.

Both have the same methods, which build a request and pass it to their transport. So the files of
`tidemill/client/_async` are those of `_sync` with a few other words, and with `await` where the transport is used. With
`--check` nothing is written, and the exit status says whether a file is stale. It needs ruff.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1] / "src/tidemill/client"
CONFIG = CLIENT.parents[2] / "pyproject.toml"
FILES = ("client.py", "resources.py", "run.py")
CLASSES = [
    "AdminKeys",
    "Apps",
    "Client",
    "Dead",
    "Entries",
    "Files",
    "Keys",
    "Knowledge",
    "Plugins",
    "RemoteRun",
    "Resource",
    "Transport",
]
WORDS = {
    r"tidemill\.client\._sync": "tidemill.client._async",
    r"\bIterator\b": "AsyncIterator",
    r"\b__(enter|exit|iter)__": r"__a\1__",
    rf"(?<![\w.])({'|'.join(CLASSES)})\b": r"Async\1",
    r"httpx\.Client\b": "httpx.AsyncClient",
    r"\bself\._transport\.(do|download|close|sleep)\(": r"await self._transport.\1(",
    r"\bself\.(close|_check_paused)\(": r"await self.\1(",
    r"\bfor event in self\._transport\.follow\(": "async for event in self._transport.follow(",
}
ALWAYS_ASYNC = {"__aenter__", "__aexit__"}
HEAD = "# Made by python/scripts/generate_async.py from the file of the same name in _sync: change that one.\n"


def generated(source: str) -> str:
    """The text of an asynchronous file."""
    for pattern, word in WORDS.items():
        source = re.sub(pattern, word, source)
    lines = source.splitlines(keepends=True)
    # `await` outside of `async def` is an error of the compiler, and not of the parser.
    for function in ast.walk(ast.parse(re.sub(r"\basync for\b", "for", source.replace("await ", "")))):
        if isinstance(function, ast.FunctionDef):
            body = "".join(lines[function.lineno - 1 : function.end_lineno])
            if "await " in body or "async for " in body or function.name in ALWAYS_ASYNC:
                lines[function.lineno - 1] = lines[function.lineno - 1].replace("def ", "async def ", 1)
    return HEAD + tidy("".join(lines))


def tidy(source: str) -> str:
    """The source with sorted imports and in form, as `make lint` wants it."""
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--config",
            CONFIG,
            "--stdin-filename",
            CLIENT / "x.py",
            "-",
        ]
        source = subprocess.run(ruff, input=source, text=True, check=True, stdout=subprocess.PIPE).stdout
    return source


def main() -> int:
    """Write the files, or check them."""
    stale = []
    for name in FILES:
        to = CLIENT / "_async" / name
        text = generated((CLIENT / "_sync" / name).read_text(encoding="utf-8"))
        if to.exists() and to.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            to.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"stale: {', '.join(stale)}; run python python/scripts/generate_async.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
