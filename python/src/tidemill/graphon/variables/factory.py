"""Makes segments and variables of Python values: programs call these functions to fill the pool before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

from .._json import is_tuple
from .segments import SEGMENTS, Segment
from .types import SegmentType
from .variables import VARIABLES, VariableBase


class UnsupportedSegmentTypeError(Exception):
    """A segment has a type that variables do not have."""


class TypeMismatchError(Exception):
    """A value does not have the type that is asked for."""


def build_segment(value: Any, /) -> Segment:
    """Return a value as a segment.

    Raises:
        ValueError: for a value that a run cannot have.

    """
    if isinstance(value, Segment):
        return value
    if is_tuple(value):
        value = list(value)
    kind = SegmentType.infer_segment_type(value)
    if kind is None:
        raise ValueError(f"a run cannot have the value {value!r}; give str, int, float, bool, None, dict, list or File")
    return SEGMENTS[kind](value_type=kind, value=value)


def build_segment_with_type(segment_type: SegmentType, value: Any) -> Segment:
    """Return a value as a segment of this type.

    Raises:
        TypeMismatchError: if it has another type.

    """
    found = SegmentType.infer_segment_type(value)
    is_empty_list = isinstance(value, list) and not value and segment_type.is_array_type()
    if segment_type is SegmentType.NUMBER and found in (SegmentType.INTEGER, SegmentType.FLOAT):
        return build_segment(value)
    if found is not segment_type and not is_empty_list:
        is_found = found.value if found else type(cast(Any, value)).__name__
        raise TypeMismatchError(f"expected {segment_type.value}, but the value is {is_found}")
    return SEGMENTS[segment_type](value_type=segment_type, value=value)


def segment_to_variable(
    *,
    segment: Segment,
    selector: Sequence[str],
    variable_id: str | None = None,
    name: str | None = None,
    description: str = "",
) -> Any:
    """Return a segment as a variable; one that is a variable already stays as it is.

    Raises:
        UnsupportedSegmentTypeError: for a group of segments.

    """
    if isinstance(segment, VariableBase):
        return segment
    variable = VARIABLES.get(segment.value_type)
    if variable is None:
        raise UnsupportedSegmentTypeError(f"a variable cannot have the type {segment.value_type.value}")
    return variable(
        id=variable_id or str(uuid4()),
        name=name or selector[-1],
        description=description,
        value_type=segment.value_type,
        value=segment.value,
        selector=list(selector),
    )
