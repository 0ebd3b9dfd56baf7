"""Texts with references to variables."""

from __future__ import annotations

import re

from ..runtime.runtime_state_protocol import ReadOnlyVariablePool
from ..runtime.variable_pool import VariablePool
from .factory import build_segment
from .segment_group import SegmentGroup
from .segments import Segment

_REFERENCE = re.compile(r"\{\{#([a-zA-Z0-9_]{1,50}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,29}){1,10})#\}\}")


def convert_template(pool: VariablePool | ReadOnlyVariablePool, template: str, /) -> SegmentGroup:
    """Return a text as segments: its references are the values of the pool; unknown ones stay as they are."""
    parts: list[Segment] = []
    for index, piece in enumerate(_REFERENCE.split(template)):
        is_reference = index % 2 == 1
        found = pool.get(piece.split(".")) if is_reference else None
        if found is not None:
            parts.append(found)
        elif piece:
            parts.append(build_segment(piece))
    return SegmentGroup(value=parts)
