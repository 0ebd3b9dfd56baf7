"""Where a download goes: into memory, up to a bound, or to a file that appears when it is whole."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO


class Store:
    """Takes the pieces of a download."""

    def __init__(self, to: Path | None, bytes_max: int) -> None:
        self._to = to
        self._part = None if to is None else to.with_name(f".{to.name}.part")
        self._file: IO[bytes] | None = None
        self._bytes_max = bytes_max
        self._held = bytearray()

    def add(self, piece: bytes) -> None:
        """Take a piece. Raises `ValueError` over the bound of memory."""
        if self._file is not None:
            self._file.write(piece)
            return
        if len(self._held) + len(piece) > self._bytes_max:
            raise ValueError(f"the file has more than {self._bytes_max} bytes (bytes_max): give `to`, a path")
        self._held += piece

    def bytes(self) -> bytes:
        """The bytes in memory; empty for a file."""
        return bytes(self._held)

    def __enter__(self) -> Store:
        if self._part is not None:
            self._file = self._part.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None or self._part is None or self._to is None:
            return
        self._file.close()
        if error is None:
            os.replace(self._part, self._to)
        else:
            self._part.unlink(missing_ok=True)
