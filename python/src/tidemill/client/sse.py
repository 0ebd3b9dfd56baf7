"""Reads server-sent events from bytes, in whatever pieces they come.

Lines end with LF, CR LF or CR, also when a piece ends between CR and LF. A line is decoded when it is whole, so a
character that is cut by a piece is not lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE_END = re.compile(rb"\r\n|\r|\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FRAME_BYTES_MAX = 256 * 1024 * 1024
"""The usual bound of one frame, in bytes: more than a run may put into an event."""


class FrameTooLarge(ValueError):
    """A frame is over the bound of its reader."""


@dataclass(frozen=True)
class Frame:
    """An event of a stream, or a comment."""

    event: str = "message"
    data: str = ""
    id: str | None = None
    """The value of the `id:` line; `None` if this frame has none."""
    comment: str | None = None
    """The text of a comment. A comment has nothing else."""


class Reader:
    """Cuts the bytes of one connection into frames. A frame without its end is dropped with the reader."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = frame_bytes_max
        self._parts: list[bytes] = []
        """The beginning of a line, in pieces: they are joined once."""
        self._held = 0
        """Bytes of the frame that is being read."""
        self._after_cr = False
        self._is_first = True
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None

    def feed(self, piece: bytes) -> list[Frame]:
        """Take a piece and return the frames that it completes.

        Raises `FrameTooLarge` for a frame over the bound.
        """
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece[1:] if piece.startswith(b"\n") else piece
        if LINE_END.search(piece) is None:
            self._hold(len(piece))
            self._parts.append(piece)
            return []
        self._after_cr = piece.endswith(b"\r")
        self._held -= sum(map(len, self._parts))
        *lines, rest = LINE_END.split(b"".join([*self._parts, piece]))
        frames: list[Frame] = []
        for line in lines:
            self._hold(len(line))
            frames.extend(self._line(line))
        self._hold(len(rest))
        self._parts = [rest]
        return frames

    def _hold(self, count: int) -> None:
        self._held += count
        if self._held > self._bytes_max:
            raise FrameTooLarge(f"a frame of the stream has more than {self._bytes_max} bytes (frame_bytes_max)")

    def _line(self, line: bytes) -> list[Frame]:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line:
            return self._end()
        text = line.decode("utf-8", "replace")
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if not name:
            self._held -= len(line)
            return [Frame(comment=value)]
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return []

    def _end(self) -> list[Frame]:
        data, event, identity = self._data, self._event or "message", self._id
        self._data, self._event, self._id = [], "", None
        self._held = 0
        return [Frame(event, "\n".join(data), identity)] if data else []
