"""Makes `tidemill/models` from docs/openapi/native.json: `python python/scripts/generate_models.py`.

The models are `TypedDict`s: an answer stays what the server sent, also the fields that this version does not know, and
nothing is checked at run time. The generator is pinned, so that everyone makes the same file:

    pip install datamodel-code-generator==0.89.0

With `--check` nothing is written, and the exit status says whether the file is stale. That needs no generator: the head
of the file has the hash of the document and of the rest of the file.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/openapi/native.json"
MODELS = ROOT / "python/src/tidemill/models/__init__.py"
GENERATOR, PINNED = "datamodel-code-generator", "0.89.0"
OPTIONS = [
    *[
        "--input-file-type",
        "openapi",
        "--output-model-type",
        "typing.TypedDict",
        "--target-python-version",
        "3.10",
    ],
    *[
        "--use-schema-description",
        "--use-field-description",
        "--use-single-line-docstring",
        "--use-double-quotes",
    ],
    *["--use-union-operator", "--use-standard-collections", "--enum-field-as-literal", "all"],
    *["--disable-timestamp", "--formatters", "builtin"],
]
HEAD = '''"""The answers and requests of `/api/v1`, as its description in docs/openapi/native.json has them.

Made by python/scripts/generate_models.py: change the document, and run that.
Document: {document}
Rest: {rest}
"""

'''


def digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def generated() -> str:
    """The models as the generator makes them, without its head."""
    try:
        found = version(GENERATOR)
    except PackageNotFoundError:
        found = "none"
    if found != PINNED:
        sys.exit(f"{GENERATOR} {PINNED} is needed, and there is {found}: pip install {GENERATOR}=={PINNED}")
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "models.py"
        command = [sys.executable, "-W", "ignore", "-m", "datamodel_code_generator", *OPTIONS]
        subprocess.run([*command, "--input", DOCUMENT, "--output", to], check=True)
        text = to.read_text(encoding="utf-8")
    text = re.sub(r"\A(#.*\n)+\n*", "", text)
    # The one of `typing` does not know `NotRequired` before 3.11, and pydantic reads it only from 3.12 on.
    text = re.sub(r"^(from typing import .*), TypedDict$", r"\1", text, flags=re.MULTILINE)
    return text.replace(
        "from typing_extensions import NotRequired", "from typing_extensions import NotRequired, TypedDict"
    )


def is_stale(text: str) -> bool:
    """Whether the file was made from another document, or changed by hand."""
    document = re.search(r"^Document: (\w+)$", text, re.MULTILINE)
    rest = re.search(r"^Rest: (\w+)\n\"\"\"\n\n(.*)\Z", text, re.MULTILINE | re.DOTALL)
    if document is None or rest is None:
        return True
    return document[1] != digest(DOCUMENT.read_text(encoding="utf-8")) or rest[1] != digest(rest[2])


def main() -> int:
    """Write the file, or check it."""
    if "--check" in sys.argv:
        if is_stale(MODELS.read_text(encoding="utf-8")):
            print(f"{MODELS} is stale; run python python/scripts/generate_models.py")
            return 1
        return 0
    text = generated()
    head = HEAD.format(document=digest(DOCUMENT.read_text(encoding="utf-8")), rest=digest(text))
    MODELS.write_text(head + text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
