"""Reads what a program gives as a workflow (a path, a text or a mapping), in the same way for engines and clients."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: A path, the text of a file (YAML or JSON), or a mapping: an export of Dify, or a bare graph with `nodes` and `edges`.
Workflow = str | os.PathLike[str] | Mapping[str, Any]


def text_of(workflow: Workflow) -> str:
    """Returns the text of a workflow file."""
    if isinstance(workflow, Mapping):
        return json.dumps(workflow, ensure_ascii=False)
    if isinstance(workflow, str):
        if "\n" in workflow or workflow.lstrip().startswith("{"):
            return workflow
        if not workflow.strip():
            raise ValueError("the workflow is an empty text; give a path, the text of a file or a mapping")
        return _read(Path(workflow))
    try:
        path = Path(workflow)
    except TypeError:
        name = workflow.__class__.__name__
        raise TypeError(f"a workflow is a path, a text or a mapping, not {name}") from None
    return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except IsADirectoryError as error:
        raise IsADirectoryError(error.errno, "a workflow file is needed, not a directory", str(path)) from None
    except FileNotFoundError as error:
        raise FileNotFoundError(
            error.errno, "there is no such workflow file (a text of one line is read as a path)", str(path)
        ) from None
