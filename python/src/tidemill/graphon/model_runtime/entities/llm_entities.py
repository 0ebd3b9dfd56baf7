"""The usage of a model call: tokens and prices."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from ..._strenum import StrEnum


class LLMMode(StrEnum):
    """The mode of a model."""

    COMPLETION = "completion"
    CHAT = "chat"


class LLMUsage(BaseModel):
    """What one or more model calls have used."""

    prompt_tokens: int = 0
    prompt_unit_price: Decimal = Decimal(0)
    prompt_price_unit: Decimal = Decimal(0)
    prompt_price: Decimal = Decimal(0)
    completion_tokens: int = 0
    completion_unit_price: Decimal = Decimal(0)
    completion_price_unit: Decimal = Decimal(0)
    completion_price: Decimal = Decimal(0)
    total_tokens: int = 0
    total_price: Decimal = Decimal(0)
    currency: str = "USD"
    latency: float = 0.0
    time_to_first_token: float | None = None
    time_to_generate: float | None = None

    @classmethod
    def empty_usage(cls) -> LLMUsage:
        """Return the usage of no call."""
        return cls()

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> LLMUsage:
        """Read a usage; fields that are absent or null are zero."""
        known = {key: value for key, value in metadata.items() if key in cls.model_fields and value is not None}
        usage = cls.model_validate(known)
        if usage.total_tokens == 0:
            usage.total_tokens = usage.prompt_tokens + usage.completion_tokens
        return usage

    def plus(self, other: LLMUsage) -> LLMUsage:
        """Return the sum of both; unit prices are those of the later one."""
        summed = (
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "prompt_price",
            "completion_price",
            "total_price",
            "latency",
        )
        return other.model_copy(update={key: getattr(self, key) + getattr(other, key) for key in summed})

    def __add__(self, other: LLMUsage) -> LLMUsage:
        return self.plus(other)
