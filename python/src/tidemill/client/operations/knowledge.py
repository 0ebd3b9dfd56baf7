"""Datasets and their documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidemill.client.request import Operation, data, get, remove, send, whole
from tidemill.client.retries import Repeat

if TYPE_CHECKING:
    from tidemill.models import (
        Dataset,
        DatasetDetail,
        DatasetRequest,
        DatasetSummary,
        DocumentDetail,
        DocumentRequest,
        Indexed,
    )


def create(dataset: DatasetRequest | Mapping[str, Any]) -> Operation[Dataset]:
    """Create a dataset."""
    return send("POST", whole, "knowledge", body=dict(dataset))


def listed() -> Operation[list[DatasetSummary]]:
    """List all datasets."""
    return get(data, "knowledge")


def show(dataset: str) -> Operation[DatasetDetail]:
    """Show a dataset, by id or name, with its documents."""
    return get(whole, "knowledge", dataset)


def drop(dataset: str) -> Operation[None]:
    """Remove a dataset with all its documents."""
    return remove("knowledge", dataset)


def add_document(dataset: str, document: DocumentRequest | Mapping[str, Any]) -> Operation[Indexed]:
    """Add a document, or replace the one with its id or name: a repeated request replaces it by the same."""
    return send("POST", whole, "knowledge", dataset, "documents", body=dict(document), repeat=Repeat.ANY)


def show_document(dataset: str, document: str, segments: int | None) -> Operation[DocumentDetail]:
    """Show a document with its first segments."""
    query = None if segments is None else {"segments": str(segments)}
    return get(whole, "knowledge", dataset, "documents", document, query=query)


def drop_document(dataset: str, document: str) -> Operation[None]:
    """Remove a document, by id or name."""
    return remove("knowledge", dataset, "documents", document)
