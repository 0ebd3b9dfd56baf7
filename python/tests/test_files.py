"""Uploads to an embedded engine: files as inputs of the runs of their user."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from flows import node, of

from tidemill import Engine, Refused

DOC = {
    "variable": "doc",
    "label": "Doc",
    "type": "file",
    "required": True,
    "allowed_file_types": ["document"],
    "allowed_file_upload_methods": ["local_file"],
}
SHOW = of(
    [
        node("start", "start", variables=[DOC]),
        node("end", "end", outputs=[{"variable": "doc", "value_selector": ["start", "doc"]}]),
    ]
)


def shown(engine: Engine, file: dict[str, Any], user: str | None = None) -> tuple[Any, ...]:
    doc = engine.run(SHOW, {"doc": file}, user=user).result(timeout=60)["doc"]
    return doc["filename"], doc["size"], doc["mime_type"]


def test_an_upload_by_its_path_or_as_bytes_is_an_input(tmp_path: Path) -> None:
    place = tmp_path / "tide & time.txt"
    place.write_bytes(b"High water at seven.")
    with Engine() as engine:
        expected = ("tide & time.txt", 20, "text/plain")
        assert shown(engine, engine.upload(place)) == expected
        assert shown(engine, engine.upload(str(place))) == expected
        assert shown(engine, engine.upload(place, name="other.txt")) == ("other.txt", *expected[1:])
        assert shown(engine, engine.upload(place.read_bytes(), "tide & time.txt")) == expected


def test_an_upload_belongs_to_its_user() -> None:
    with Engine() as engine:
        file = engine.upload(b"High water at seven.", "tide.txt", "ann")
        assert shown(engine, file, "ann") == ("tide.txt", 20, "text/plain")
        with pytest.raises(Refused, match="Invalid upload file"):
            engine.run(SHOW, {"doc": file}, user="bob")


def test_an_upload_leaves_the_event_loop_free_on_a_thread() -> None:
    async def main() -> None:
        async with Engine() as engine:
            file = await asyncio.to_thread(engine.upload, b"High water at seven.", "tide.txt")
            outputs = await engine.run(SHOW, {"doc": file}).wait()
            assert outputs["doc"]["filename"] == "tide.txt"

    asyncio.run(main())


def test_what_cannot_be_uploaded_is_named(tmp_path: Path) -> None:
    with Engine({"scheduler": {"upload_bytes_max": 10}}) as engine:
        for wrong, error, said in [
            (lambda: engine.upload(b"x"), ValueError, "name: bytes have no name of a file"),
            (lambda: engine.upload(3), TypeError, "file: a path or bytes are needed, not int"),  # type: ignore[arg-type]
            (lambda: engine.upload(b"x", 3), TypeError, "name: a str is needed, not int"),  # type: ignore[arg-type]
            (lambda: engine.upload(b"x", "x.txt", 3), TypeError, "user: a str is needed, not int"),  # type: ignore[arg-type]
            (lambda: engine.upload(tmp_path / "absent.txt"), FileNotFoundError, r"absent\.txt"),
            (lambda: engine.upload(bytes(11), "x.txt"), Refused, "file_too_large"),
        ]:
            with pytest.raises(error, match=said):
                wrong()
