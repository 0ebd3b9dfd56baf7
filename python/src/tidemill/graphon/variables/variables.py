"""Values with their types and names: one class for each type of segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import uuid4

from pydantic import Discriminator, Field, Tag

from .segments import (
    ArrayAnySegment,
    ArrayBooleanSegment,
    ArrayFileSegment,
    ArrayNumberSegment,
    ArrayObjectSegment,
    ArraySegment,
    ArrayStringSegment,
    BooleanSegment,
    FileSegment,
    FloatSegment,
    IntegerSegment,
    NoneSegment,
    ObjectSegment,
    Segment,
    StringSegment,
    get_segment_discriminator,
)
from .types import SegmentType


class VariableBase(Segment):
    """A value with a name. Use a subclass."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    name: str
    description: str = ""
    selector: Sequence[str] = Field(default_factory=list)


class NoneVariable(NoneSegment, VariableBase):
    """No value."""


class StringVariable(StringSegment, VariableBase):
    """A text."""


class SecretVariable(StringVariable):
    """A text that logs do not show."""

    value_type: SegmentType = SegmentType.SECRET

    @property
    def log(self) -> str:
        return "***" if self.value else ""

    def __repr__(self) -> str:
        return f"SecretVariable(name={self.name!r}, value='***')"

    __str__ = __repr__


class IntegerVariable(IntegerSegment, VariableBase):
    """A whole number."""


class FloatVariable(FloatSegment, VariableBase):
    """A number."""


class BooleanVariable(BooleanSegment, VariableBase):
    """True or false."""


class ObjectVariable(ObjectSegment, VariableBase):
    """An object."""


class FileVariable(FileSegment, VariableBase):
    """A file."""


class ArrayVariable(ArraySegment, VariableBase):
    """A list. Use a subclass."""


class ArrayAnyVariable(ArrayAnySegment, ArrayVariable):
    """A list of values of any types."""


class ArrayStringVariable(ArrayStringSegment, ArrayVariable):
    """A list of texts."""


class ArrayNumberVariable(ArrayNumberSegment, ArrayVariable):
    """A list of numbers."""


class ArrayObjectVariable(ArrayObjectSegment, ArrayVariable):
    """A list of objects."""


class ArrayFileVariable(ArrayFileSegment, ArrayVariable):
    """A list of files."""


class ArrayBooleanVariable(ArrayBooleanSegment, ArrayVariable):
    """A list of true and false."""


VARIABLES: dict[SegmentType, type[VariableBase]] = {
    SegmentType.NONE: NoneVariable,
    SegmentType.STRING: StringVariable,
    SegmentType.SECRET: SecretVariable,
    SegmentType.INTEGER: IntegerVariable,
    SegmentType.FLOAT: FloatVariable,
    SegmentType.BOOLEAN: BooleanVariable,
    SegmentType.OBJECT: ObjectVariable,
    SegmentType.FILE: FileVariable,
    SegmentType.ARRAY_ANY: ArrayAnyVariable,
    SegmentType.ARRAY_STRING: ArrayStringVariable,
    SegmentType.ARRAY_NUMBER: ArrayNumberVariable,
    SegmentType.ARRAY_OBJECT: ArrayObjectVariable,
    SegmentType.ARRAY_FILE: ArrayFileVariable,
    SegmentType.ARRAY_BOOLEAN: ArrayBooleanVariable,
}
"""The class of each type."""

Variable = Annotated[
    Annotated[NoneVariable, Tag(SegmentType.NONE)]
    | Annotated[StringVariable, Tag(SegmentType.STRING)]
    | Annotated[SecretVariable, Tag(SegmentType.SECRET)]
    | Annotated[IntegerVariable, Tag(SegmentType.INTEGER)]
    | Annotated[FloatVariable, Tag(SegmentType.FLOAT)]
    | Annotated[BooleanVariable, Tag(SegmentType.BOOLEAN)]
    | Annotated[ObjectVariable, Tag(SegmentType.OBJECT)]
    | Annotated[FileVariable, Tag(SegmentType.FILE)]
    | Annotated[ArrayAnyVariable, Tag(SegmentType.ARRAY_ANY)]
    | Annotated[ArrayStringVariable, Tag(SegmentType.ARRAY_STRING)]
    | Annotated[ArrayNumberVariable, Tag(SegmentType.ARRAY_NUMBER)]
    | Annotated[ArrayObjectVariable, Tag(SegmentType.ARRAY_OBJECT)]
    | Annotated[ArrayFileVariable, Tag(SegmentType.ARRAY_FILE)]
    | Annotated[ArrayBooleanVariable, Tag(SegmentType.ARRAY_BOOLEAN)],
    Discriminator(get_segment_discriminator),
]
"""Any variable, for fields of pydantic models."""
