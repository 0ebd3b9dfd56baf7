"""Reads what a program gives as a file for `Engine.upload`: a path or bytes."""

from __future__ import annotations

import os
from pathlib import Path


def read(file: str | os.PathLike[str] | bytes) -> tuple[str, bytes]:
    """Returns the name and the content of a file; bytes have no name."""
    if isinstance(file, (bytes, bytearray, memoryview)):
        return "", bytes(file)
    if isinstance(file, (str, os.PathLike)):
        place = Path(file)
        return place.name, place.read_bytes()
    raise TypeError(f"file: a path or bytes are needed, not {file.__class__.__name__}")


def text(what: str, value: str | None) -> str | None:
    """Refuses a parameter that is no text, by its name."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what}: a str is needed, not {value.__class__.__name__}")
    return value
