"""Values with their types: one class for each type, as programs of graphon expect them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from ..file.models import File
from .types import SegmentType


class Segment(BaseModel):
    """A value with its type. Use a subclass."""

    model_config = ConfigDict(frozen=True)

    value_type: SegmentType
    value: Any

    @property
    def text(self) -> str:
        """The value in a text."""
        return str(self.value)

    @property
    def log(self) -> str:
        """The value in a log."""
        return self.text

    @property
    def markdown(self) -> str:
        """The value in a Markdown text."""
        return self.text

    @property
    def size(self) -> int:
        """The bytes that the value has in memory."""
        return sys.getsizeof(self.value)

    def to_object(self) -> Any:
        """Return the value."""
        return self.value


class NoneSegment(Segment):
    """No value."""

    value_type: SegmentType = SegmentType.NONE
    value: None = None

    @property
    def text(self) -> str:
        return ""


class StringSegment(Segment):
    """A text."""

    value_type: SegmentType = SegmentType.STRING
    value: str


class IntegerSegment(Segment):
    """A whole number."""

    value_type: SegmentType = SegmentType.INTEGER
    value: int


class FloatSegment(Segment):
    """A number."""

    value_type: SegmentType = SegmentType.FLOAT
    value: float


class BooleanSegment(Segment):
    """True or false."""

    value_type: SegmentType = SegmentType.BOOLEAN
    value: bool


class ObjectSegment(Segment):
    """An object."""

    value_type: SegmentType = SegmentType.OBJECT
    value: Mapping[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.model_dump()["value"], ensure_ascii=False)

    @property
    def log(self) -> str:
        return json.dumps(self.model_dump()["value"], ensure_ascii=False, indent=2)

    @property
    def markdown(self) -> str:
        return self.log


class FileSegment(Segment):
    """A file."""

    value_type: SegmentType = SegmentType.FILE
    value: File

    @property
    def text(self) -> str:
        return ""

    @property
    def markdown(self) -> str:
        return self.value.markdown


class ArraySegment(Segment):
    """A list. An empty one is an empty text."""

    @property
    def text(self) -> str:
        return str(self.value) if self.value else ""

    @property
    def log(self) -> str:
        return str(self.value)

    @property
    def markdown(self) -> str:
        return "\n".join(f"- {item}" for item in self.value)


class ArrayAnySegment(ArraySegment):
    """A list of values of any types."""

    value_type: SegmentType = SegmentType.ARRAY_ANY
    value: Sequence[Any]


class ArrayStringSegment(ArraySegment):
    """A list of texts."""

    value_type: SegmentType = SegmentType.ARRAY_STRING
    value: Sequence[str]

    @property
    def text(self) -> str:
        return json.dumps(self.value, ensure_ascii=False) if self.value else ""


class ArrayNumberSegment(ArraySegment):
    """A list of numbers."""

    value_type: SegmentType = SegmentType.ARRAY_NUMBER
    value: Sequence[int | float]


class ArrayObjectSegment(ArraySegment):
    """A list of objects."""

    value_type: SegmentType = SegmentType.ARRAY_OBJECT
    value: Sequence[Mapping[str, Any]]


class ArrayFileSegment(ArraySegment):
    """A list of files."""

    value_type: SegmentType = SegmentType.ARRAY_FILE
    value: Sequence[File]

    @property
    def text(self) -> str:
        return ""

    @property
    def log(self) -> str:
        return ""

    @property
    def markdown(self) -> str:
        return "\n".join(item.markdown for item in self.value)


class ArrayBooleanSegment(ArraySegment):
    """A list of true and false."""

    value_type: SegmentType = SegmentType.ARRAY_BOOLEAN
    value: Sequence[bool]


SEGMENTS: dict[SegmentType, type[Segment]] = {
    SegmentType.NONE: NoneSegment,
    SegmentType.STRING: StringSegment,
    SegmentType.INTEGER: IntegerSegment,
    SegmentType.FLOAT: FloatSegment,
    SegmentType.BOOLEAN: BooleanSegment,
    SegmentType.OBJECT: ObjectSegment,
    SegmentType.FILE: FileSegment,
    SegmentType.ARRAY_ANY: ArrayAnySegment,
    SegmentType.ARRAY_STRING: ArrayStringSegment,
    SegmentType.ARRAY_NUMBER: ArrayNumberSegment,
    SegmentType.ARRAY_OBJECT: ArrayObjectSegment,
    SegmentType.ARRAY_FILE: ArrayFileSegment,
    SegmentType.ARRAY_BOOLEAN: ArrayBooleanSegment,
}
"""The class of each type."""


def get_segment_discriminator(value: Any) -> SegmentType | None:
    """Return the type of a segment or of its JSON; None for anything else."""
    if isinstance(value, Segment):
        return value.value_type
    if isinstance(value, dict):
        try:
            return SegmentType(cast("dict[str, Any]", value).get("value_type"))
        except ValueError:
            return None
    return None
