"""The types of values, as graphon names them, and which Python value has which type."""

from __future__ import annotations

from typing import Any

from .._json import is_list
from .._strenum import StrEnum
from ..file.models import File


class SegmentType(StrEnum):
    """The type of a value."""

    NUMBER = "number"
    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    OBJECT = "object"
    SECRET = "secret"
    FILE = "file"
    BOOLEAN = "boolean"
    ARRAY_ANY = "array[any]"
    ARRAY_STRING = "array[string]"
    ARRAY_NUMBER = "array[number]"
    ARRAY_OBJECT = "array[object]"
    ARRAY_FILE = "array[file]"
    ARRAY_BOOLEAN = "array[boolean]"
    NONE = "none"
    GROUP = "group"

    def is_array_type(self) -> bool:
        """Return true for the types of lists."""
        return self.value.startswith("array[")

    def element_type(self) -> SegmentType | None:
        """Return the type of a list's items; None if they may have any.

        Raises:
            ValueError: if this is no type of a list.

        """
        if not self.is_array_type():
            raise ValueError(f"only a type of lists has an element type, and {self.value} is none")
        name = self.value.removeprefix("array[").removesuffix("]")
        return None if name == "any" else SegmentType(name)

    def exposed_type(self) -> SegmentType:
        """Return the type as editors show it: all numbers are ``number``."""
        return SegmentType.NUMBER if self in _NUMBERS else self

    @classmethod
    def infer_segment_type(cls, value: Any) -> SegmentType | None:
        """Return the type of a value; None if it has none."""
        if is_list(value):
            return _type_of_list([cls.infer_segment_type(item) for item in value])
        return next((kind for python, kind in _PYTHON if isinstance(value, python)), None)

    def is_valid(self, value: Any) -> bool:
        """Return true if a value has this type."""
        if self.is_array_type():
            element = self.element_type()
            return is_list(value) and (element is None or all(map(element.is_valid, value)))
        found = SegmentType.infer_segment_type(value)
        if found is SegmentType.STRING:
            return self in (SegmentType.STRING, SegmentType.SECRET)
        return found is not None and (found is self or (self in _NUMBERS and found in _NUMBERS))


_NUMBERS = frozenset((SegmentType.NUMBER, SegmentType.INTEGER, SegmentType.FLOAT))
# bool is a kind of int in Python, so it comes first.
_PYTHON: tuple[tuple[type, SegmentType], ...] = (
    (type(None), SegmentType.NONE),
    (bool, SegmentType.BOOLEAN),
    (int, SegmentType.INTEGER),
    (float, SegmentType.FLOAT),
    (str, SegmentType.STRING),
    (File, SegmentType.FILE),
    (dict, SegmentType.OBJECT),
)
_LISTS = {
    SegmentType.STRING: SegmentType.ARRAY_STRING,
    SegmentType.OBJECT: SegmentType.ARRAY_OBJECT,
    SegmentType.FILE: SegmentType.ARRAY_FILE,
    SegmentType.BOOLEAN: SegmentType.ARRAY_BOOLEAN,
}


def _type_of_list(items: list[SegmentType | None]) -> SegmentType | None:
    kinds = set(items)
    if None in kinds:
        return None
    if kinds and kinds <= _NUMBERS:
        return SegmentType.ARRAY_NUMBER
    if len(kinds) == 1:
        only = kinds.pop()
        return _LISTS.get(only, SegmentType.ARRAY_ANY) if only else None
    return SegmentType.ARRAY_ANY
