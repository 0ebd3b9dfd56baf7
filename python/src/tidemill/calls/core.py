"""`CoreCall`, the base of all Calls: what a class must give, and what it may change."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Self

from tidemill.calls.models import CallInfo, CallOutputChunk, CallVars, DataBase, LanguageType, NodeInfo

__all__ = ["CoreCall"]


class CoreCall(BaseModel):
    """The base of all Calls. A class gives its models, `info`, `_init` and `_exec`::

        class Greet(CoreCall, input_model=GreetInput, output_model=GreetOutput): ...

    Its fields are its configuration: a node's parameters set them. `_init` makes the input, `_exec` runs the Call with
    it. They may be called in different processes, each on an object of its own, so what `_exec` needs must be in the
    input or in fields.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    #: The id by which nodes name the Call; the name of the class, unless the class gives `call_id`.
    call_id: ClassVar[str] = ""
    input_model: ClassVar[type[DataBase]]
    output_model: ClassVar[type[DataBase]]
    #: The output `branch_id` names the branch that the run takes.
    branch: ClassVar[bool] = False

    name: str = Field(default="", exclude=True)
    description: str = Field(default="", exclude=True)
    node: NodeInfo | None = Field(default=None, exclude=True)
    #: The default of nodes: missing parameters are looked for in the context of the run.
    enable_filling: bool = Field(default=False, exclude=True)
    #: The default of nodes: texts of the Call are shown to the user.
    to_user: bool = Field(default=False, exclude=True)
    #: The input of `_exec`.
    input: dict[str, Any] = Field(default_factory=dict, exclude=True)

    def __init_subclass__(
        cls,
        *,
        input_model: type[DataBase] | None = None,
        output_model: type[DataBase] | None = None,
        call_id: str = "",
        **options: Any,
    ) -> None:
        super().__init_subclass__(**options)
        if input_model is not None:
            cls.input_model = input_model
        if output_model is not None:
            cls.output_model = output_model
        cls.call_id = call_id or cls.__dict__.get("call_id") or cls.__name__

    @classmethod
    def info(cls, language: LanguageType = LanguageType.CHINESE) -> CallInfo:
        """Returns name and description in a language."""
        raise NotImplementedError

    async def _init(self, call_vars: CallVars) -> DataBase:
        """Makes the input. It may be called again, so it must have no effects."""
        raise NotImplementedError

    async def _exec(self, input_data: dict[str, Any]) -> AsyncGenerator[CallOutputChunk, None]:
        """Runs the Call: yields pieces."""
        raise NotImplementedError
        yield

    async def _after_exec(self, input_data: dict[str, Any]) -> None:
        """Called when the Call has succeeded. Override it if there is something to do."""

    @classmethod
    def instance(cls, params: dict[str, Any], node: NodeInfo | None = None) -> Self:
        """Returns an object with these parameters."""
        told = cls.info()
        given = {"name": told.name, "description": told.description, "node": node}
        return cls.model_validate({**params, **given})
