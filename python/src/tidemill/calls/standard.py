"""The Call standard: what a class must have. The check is at registration, so that a mistake is found before a run."""

from __future__ import annotations

import inspect
from typing import Any

from tidemill.calls.core import CoreCall
from tidemill.calls.errors import CallStandardError
from tidemill.calls.models import CallInfo, DataBase, LanguageType

__all__ = ["check", "has_after_exec", "manifest"]

_METHODS = (
    ("_init", inspect.iscoroutinefunction, "async def _init(self, call_vars) -> DataBase, which makes the input"),
    ("_exec", inspect.isasyncgenfunction, "async def _exec(self, input_data) with `yield CallOutputChunk(...)`"),
)


def check(call: Any) -> type[CoreCall]:
    """Returns the class if it meets the standard.

    Raises `CallStandardError` with all problems, each with what to do.
    """
    name = getattr(call, "__name__", None) or repr(call)
    if not isinstance(call, type) or not issubclass(call, CoreCall):
        raise CallStandardError(
            name, ["it is no class derived from tidemill.calls.CoreCall: pass such a class, not an object"]
        )
    problems = [
        f"{method} is missing or of another kind: write {wanted}"
        for method, is_right, wanted in _METHODS
        if getattr(call, method) is getattr(CoreCall, method) or not is_right(getattr(call, method))
    ]
    for model in ("input_model", "output_model"):
        found = getattr(call, model, None)
        if not isinstance(found, type) or not issubclass(found, DataBase):
            problems.append(f"{model} is missing: write class {name}(CoreCall, {model}=…), with a subclass of DataBase")
    problems.extend(_problems_of_info(call))
    if problems:
        raise CallStandardError(name, problems)
    return call


def _problems_of_info(call: type[CoreCall]) -> list[str]:
    wanted = "write @classmethod def info(cls, language) -> CallInfo"
    if getattr(call.info, "__func__", None) is getattr(CoreCall.info, "__func__", None):
        return [f"info is missing: {wanted}"]
    try:
        told: list[Any] = [call.info(language) for language in LanguageType]
    except Exception as error:
        return [f"info raises {type(error).__name__} ({error}): {wanted}"]
    if not all(isinstance(one, CallInfo) and one.name.strip() and one.description.strip() for one in told):
        return ["info must return a CallInfo with a name and a description in each language"]
    return []


def has_after_exec(call: type[CoreCall]) -> bool:
    """True if the class has something to do after it has succeeded."""
    own, inherited = (getattr(cls, "_after_exec") for cls in (call, CoreCall))  # noqa: B009
    return own is not inherited


def manifest(call: type[CoreCall]) -> dict[str, Any]:
    """Returns the manifest with which a Call is registered: its texts and its schemas."""
    told = {language: call.info(language) for language in LanguageType}
    operations = ["init", "exec", *(["after_exec"] if has_after_exec(call) else [])]
    return {
        "info": {key.value: {"name": one.name, "description": one.description} for key, one in told.items()},
        "input_schema": call.input_model.model_json_schema(),
        "output_schema": call.output_model.model_json_schema(),
        "operations": operations,
        "streaming": True,
        "branch": call.branch,
        "enable_filling": bool(call.model_fields["enable_filling"].default),
        "to_user": bool(call.model_fields["to_user"].default),
    }
