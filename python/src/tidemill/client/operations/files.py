"""Files: uploads for runs that begin later, and where a file of an answer is opened."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Union
from urllib.parse import urljoin, urlsplit

from tidemill.client.request import Content, Operation, Request, given, path, whole
from tidemill.client.retries import Repeat

if TYPE_CHECKING:
    from tidemill.models import File

PIECE = 256 * 1024
"""Bytes of a file that are read at once."""
DOWNLOAD_BYTES_MAX = 256 * 1024 * 1024
"""The usual bound of a file that is read into memory, in bytes."""

Source = Union[bytes, "os.PathLike[str]", str, IO[bytes]]
"""Bytes, a path, or an open binary file."""


def upload(
    source: Source, name: str | None, user: str | None, app: str | None, media_type: str | None
) -> Operation[File]:
    """Store a file. A second upload of a repeated request is removed after some days, like every upload."""
    content, size, own_name, repeat = body(source)
    name = name or own_name
    if not name:
        raise ValueError("a file needs a name: give name=…")
    media_type = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"Content-Type": media_type, **({} if size is None else {"Content-Length": str(size)})}
    query = given(name=name, user=user, app=app)
    return Operation(Request("POST", path("files"), query, headers, content, repeat), whole)


def body(source: Source) -> tuple[Content, int | None, str, Repeat]:
    """Return the content of a source, its size, its name, and whether it can be sent again."""
    if isinstance(source, bytes):
        held = source
        return (lambda: held), len(held), "", Repeat.ANY
    if isinstance(source, (str, os.PathLike)):
        place = Path(source)
        return (lambda: _pieces(place)), place.stat().st_size, place.name, Repeat.ANY
    file = source
    # Of a file that was opened by its number, `name` is the number.
    called = getattr(file, "name", "")
    name = os.path.basename(called) if isinstance(called, str) else ""
    if not file.seekable():
        return (lambda: _rest(file)), None, name, Repeat.UNSENT
    start = file.tell()

    def again() -> Iterator[bytes]:
        file.seek(start)
        return _rest(file)

    return again, None, name, Repeat.ANY


def _pieces(place: Path) -> Iterator[bytes]:
    with place.open("rb") as file:
        yield from _rest(file)


def _rest(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece


def as_input(file: File | Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
    """An upload as a value of inputs, of `files` and of answers; `kind` is `document`, `image`, `audio` or `video`."""
    return {"transfer_method": "local_file", "upload_file_id": file["id"], **given(type=kind)}


def address(base: str, file: str | Mapping[str, Any]) -> str:
    """Return the address of a file object, or of a URL that may be relative to the server.

    Raises `ValueError` for a file object without an address.
    """
    url = file if isinstance(file, str) else file.get("url") or file.get("remote_url")
    if not url or not isinstance(url, str):
        raise ValueError("this file has no url; files that nodes made get one in the answers of /v1 (docs/api.md)")
    whole_url = urljoin(base + "/", url)
    if urlsplit(whole_url).scheme not in {"http", "https"}:
        raise ValueError(f"{whole_url} is not an http address")
    return whole_url
