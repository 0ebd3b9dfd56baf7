"""A request as data, and an operation: a request and what is wanted of its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

from tidemill.client.retries import Repeat

T = TypeVar("T")

Content = Callable[[], "bytes | Iterator[bytes]"]
"""Makes the body of an attempt. Pieces are read once, so each attempt asks again."""


@dataclass(frozen=True)
class Request:
    """A request below `/api/v1`."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: Content | None = field(default=None, repr=False)
    repeat: Repeat = Repeat.ANY

    @property
    def name(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} /api/v1{self.path}"


@dataclass(frozen=True)
class Operation(Generic[T]):
    """A request, and how the answer to it is read."""

    request: Request
    read: Callable[[Any], T]


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list that comes in pages: the request of a page by the `next` of the page before it."""

    page: Callable[[str | None], Request]

    def read(self, answer: Any) -> tuple[list[T], str | None]:
        """Return the items of a page, and where the next one begins."""
        return answer["data"], answer["next"]


def path(*parts: str) -> str:
    """Join parts of a path. An id may have any characters, also `/`. Raises `ValueError` for an empty part."""
    if not all(parts):
        raise ValueError("an id must not be empty")
    return "".join("/" + quote(part, safe="") for part in parts)


def flag(value: bool) -> str:
    """A truth as a parameter of a query."""
    return "true" if value else "false"


def given(**values: Any) -> dict[str, Any]:
    """The values that are not `None`."""
    return {name: value for name, value in values.items() if value is not None}


def encoded(value: Any) -> Content:
    """A value as the JSON body of a request. It is written once, so that each attempt sends the same bytes."""
    try:
        body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except TypeError as error:
        # The text of the module json names the class, but not the place.
        raise TypeError(misfit(value) or str(error)) from None
    return lambda: body


def misfit(value: Any, place: str = "") -> str | None:
    """The first value that JSON cannot hold, with its place, as a sentence; `None` if there is none."""
    if value is None or isinstance(value, (str, int, float)):
        return None
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = cast("Mapping[Any, Any]", value).items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(cast("list[Any]", value))
    else:
        kind = f"{value.__class__.__module__}.{value.__class__.__name__}".removeprefix("builtins.")
        return (
            f"{place or 'the request'}: {kind} is no JSON value; use None, bool, int, float, str, list, tuple or dict"
        )
    found = (misfit(item, f"{place}.{key}" if place else str(key)) for key, item in items)
    return next(filter(None, found), None)


JSON = {"Content-Type": "application/json"}


def whole(answer: Any) -> Any:
    """The whole answer."""
    return answer


def data(answer: Any) -> Any:
    """The items of a list that comes whole."""
    return answer["data"]


def nothing(_answer: Any) -> None:
    """No answer is wanted."""


def new_key() -> str:
    """A key under which the server counts a request once, however often it is sent."""
    return f"py-{uuid4().hex}"


def get(read: Callable[[Any], T], *parts: str, query: Mapping[str, str] | None = None) -> Operation[T]:
    """An operation that only reads."""
    return Operation(Request("GET", path(*parts), query=query or {}), read)


def remove(*parts: str, query: Mapping[str, str] | None = None) -> Operation[None]:
    """An operation that removes something."""
    return Operation(Request("DELETE", path(*parts), query=query or {}, repeat=Repeat.REFUSED), nothing)


def send(
    method: str,
    read: Callable[[Any], T],
    *parts: str,
    body: Any = None,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    repeat: Repeat = Repeat.REFUSED,
) -> Operation[T]:
    """An operation with a JSON body, or without one."""
    content = None if body is None else encoded(body)
    all_headers = {**({} if body is None else JSON), **(headers or {})}
    return Operation(Request(method, path(*parts), query or {}, all_headers, content, repeat), read)
