"""The Call standard: a class that meets it has a manifest, another one is refused with what to do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from calls.greet import Greet, GreetInput, GreetOutput
from tidemill.calls import (
    CallInfo,
    CallOutputChunk,
    CallOutputType,
    CallStandardError,
    CallVars,
    CoreCall,
    DataBase,
    LanguageType,
    manifest,
)
from tidemill.calls.serve import serve


def test_a_class_has_a_manifest_with_its_texts_and_schemas() -> None:
    told = manifest(Greet)
    assert told["info"]["en"] == {"name": "Greet", "description": "Says hello"}
    assert told["info"]["zh"]["name"] == "问候"
    assert told["input_schema"]["required"] == ["who"]
    assert told["output_schema"]["properties"].keys() == {"text"}
    assert told["operations"] == ["init", "exec"]


def test_something_to_do_afterwards_is_an_operation() -> None:
    class After(Greet):
        async def _after_exec(self, input_data: dict[str, Any]) -> None: ...

    assert manifest(After)["operations"] == ["init", "exec", "after_exec"]


def test_a_class_is_named_by_its_name_or_by_its_call_id() -> None:
    class Named(Greet, call_id="named"): ...

    class Plain(Named): ...

    assert [serve(one)[0] for one in (Greet, Named, Plain)] == ["Greet", "named", "Plain"]


class Info:
    @classmethod
    def info(cls, language: LanguageType = LanguageType.CHINESE) -> CallInfo:
        return CallInfo(name="Part", description="Has a name")


class Init:
    async def _init(self, call_vars: CallVars) -> DataBase:
        return GreetInput(who="Ada")


class Exec:
    async def _exec(self, input_data: dict[str, Any]) -> AsyncGenerator[CallOutputChunk, None]:
        yield CallOutputChunk(type=CallOutputType.TEXT, content="Hello")


class NoInit(Info, Exec, CoreCall, input_model=GreetInput, output_model=GreetOutput): ...


class PlainExec(Greet):
    async def _exec(self, input_data: dict[str, Any]) -> Any:  # type: ignore[override]
        return "text"


class NoModels(Info, Init, Exec, CoreCall): ...


class NoInfo(Init, Exec, CoreCall, input_model=GreetInput, output_model=GreetOutput): ...


class EmptyInfo(Greet):
    @classmethod
    def info(cls, language: LanguageType = LanguageType.CHINESE) -> CallInfo:
        return CallInfo(name=" ", description="")


@pytest.mark.parametrize(
    ("wrong", "problems"),
    [
        (NoInit, ["_init is missing"]),
        (PlainExec, ["_exec is missing or of another kind: write async def _exec"]),
        (NoModels, ["input_model is missing", "output_model is missing"]),
        (NoInfo, ["info is missing"]),
        (EmptyInfo, ["info must return a CallInfo with a name"]),
        (CoreCall, ["_init", "_exec", "input_model", "output_model", "info"]),
        (GreetInput, ["no class derived from tidemill.calls.CoreCall"]),
        (Greet.info, ["no class derived from tidemill.calls.CoreCall"]),
    ],
)
def test_a_wrong_class_is_refused_with_all_its_problems(wrong: Any, problems: list[str]) -> None:
    with pytest.raises(CallStandardError) as refused:
        serve(wrong)
    assert len(refused.value.problems) == len(problems)
    for problem, expected in zip(refused.value.problems, problems, strict=True):
        assert expected in problem


def test_a_schema_takes_other_properties() -> None:
    schema = GreetInput.model_json_schema(override={"who": {"type": "string", "title": "Whom"}})
    assert schema["properties"]["who"]["title"] == "Whom"
    assert issubclass(GreetInput, DataBase)
