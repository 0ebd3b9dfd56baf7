"""Separates the thoughts of a model from its answer: `<think>…</think>` in its text, also when a stream cuts a tag."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPEN = re.compile(r"<think(?:\s[^<>]*)?>", re.IGNORECASE)
_CLOSE = re.compile(r"</think>", re.IGNORECASE)
#: The beginnings of an opening tag that are longer than `<think`.
_OPENING = re.compile(r"<think\s[^<>]*", re.IGNORECASE)
_BLOCK = re.compile(r"<think(?:\s[^<>]*)?>(.*?)(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)


def split(reply: str) -> tuple[str, str]:
    """The answer and the thoughts of a whole reply."""
    answer = re.sub(r"\n\s*\n", "\n\n", _BLOCK.sub("", reply)).strip()
    thoughts = [block.strip() for block in _BLOCK.findall(reply)]
    return answer, "\n".join(thought for thought in thoughts if thought)


class Filter:
    """Sorts the pieces of a stream: each result is a text, and whether it is a thought."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._has_spoken = False

    def push(self, piece: str) -> Iterator[tuple[str, bool]]:
        text = self._held + piece
        while tag := (_CLOSE if self._inside else _OPEN).search(text):
            yield from self._sorted(text[: tag.start()])
            self._inside = not self._inside
            text = text[tag.end() :]
        at = text.rfind("<")
        sure = at if at >= 0 and self._may_become_tag(text[at:]) else len(text)
        self._held = text[sure:]
        yield from self._sorted(text[:sure])

    def end(self) -> Iterator[tuple[str, bool]]:
        yield from self._sorted(self._held)

    def _may_become_tag(self, text: str) -> bool:
        tag = "</think>" if self._inside else "<think"
        return tag.startswith(text.lower()) or (not self._inside and _OPENING.fullmatch(text) is not None)

    def _sorted(self, text: str) -> Iterator[tuple[str, bool]]:
        if not self._inside and not self._has_spoken:
            text = text.lstrip()
        if text:
            self._has_spoken = self._has_spoken or not self._inside
            yield text, self._inside
