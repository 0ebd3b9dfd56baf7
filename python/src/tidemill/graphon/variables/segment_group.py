"""Several values as one: what a template with several references renders to."""

from __future__ import annotations

from typing import Any

from .segments import Segment
from .types import SegmentType


class SegmentGroup(Segment):
    """Several values as one: the parts of a text with references."""

    value_type: SegmentType = SegmentType.GROUP
    value: list[Segment]

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.value)

    @property
    def log(self) -> str:
        return "".join(item.log for item in self.value)

    @property
    def markdown(self) -> str:
        return "".join(item.markdown for item in self.value)

    def to_object(self) -> Any:
        return [item.to_object() for item in self.value]
