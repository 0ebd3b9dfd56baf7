"""The kinds of JSON values, told so that type checkers know what is inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return true for a list."""
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Return true for a tuple."""
    return isinstance(value, tuple)


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return true for an object."""
    return isinstance(value, Mapping)
