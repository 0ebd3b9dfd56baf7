"""``StrEnum`` for Python 3.10, which does not have it yet."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum as StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """An enumeration whose members are texts."""

        __str__ = str.__str__

        def __format__(self, spec: str) -> str:
            return str.__format__(self.value, spec)
