"""Outside values to typed ones: plain dataclasses, read by their annotations, and what was wrong where that fails.

The only module of the core that knows pydantic, so that no other room needs to. How bytes become values is not here
but in ``strict_json.py`` and in who reads a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import GenericAlias
from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True)
class DecodingProblem:
    """One thing that is wrong with a value."""

    path: tuple[str, ...]
    """Names and positions that lead to it; empty for the whole value."""
    message: str
    kind: str
    """In pydantic's word, such as ``missing``."""
    found: Any = field(repr=False)
    """What stands there. It may be a secret: who shows it has to know that it is none."""

    @property
    def is_missing(self) -> bool:
        """Whether a field is not there that has to be."""
        return self.kind == "missing"

    @property
    def is_unknown(self) -> bool:
        """Whether a field is there that nobody knows."""
        return self.kind in {"extra_forbidden", "unexpected_keyword_argument"}

    @property
    def where(self) -> str:
        """The path in one word."""
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.path else self.message


class Undecodable(ValueError):
    """A value is not what it should be; the message is the first problem, ``problems`` are all."""

    def __init__(self, problems: Sequence[DecodingProblem]) -> None:
        super().__init__(str(problems[0]))
        self.problems = tuple(problems)


class Decoder(Generic[Decoded]):
    """Reads values of one type."""

    def __init__(self, adapter: TypeAdapter[tuple[Decoded]]) -> None:
        self._adapter = adapter

    def value(self, found: object) -> Decoded:
        """Return what a value holds; raise ``Undecodable``."""
        try:
            return self._adapter.validate_python((found,))[0]
        except ValidationError as error:
            raise Undecodable(_problems(error)) from error

    def json(self, text: bytes, *, strict: bool = False) -> Decoded:
        """Return what a JSON text holds; raise ``Undecodable``. Strictly, no text is taken for a number."""
        try:
            return self._adapter.validate_json(b"[%b]" % text, strict=strict or None)[0]
        except ValidationError as error:
            raise Undecodable(_problems(error)) from error


def decoder(kind: type[Decoded], *, allow_unknown: bool = False, allow_inf_nan: bool = True) -> Decoder[Decoded]:
    """Return what reads values of a type; fields that it doesn't have are refused, or else passed over."""
    return Decoder(_adapter(_Settings(kind, "ignore" if allow_unknown else "forbid", allow_inf_nan)))


@dataclass(frozen=True, slots=True)
class _Settings:
    kind: Any
    extra: Literal["ignore", "forbid"]
    allow_inf_nan: bool


@cache
def _adapter(settings: _Settings) -> TypeAdapter[Any]:
    # pydantic takes no settings for a plain dataclass, but hands a tuple's down to the dataclasses inside it
    alias: Any = GenericAlias(tuple, (settings.kind,))
    config = ConfigDict(extra=settings.extra, allow_inf_nan=settings.allow_inf_nan)
    return TypeAdapter[Any](alias, config=config)


def _problems(error: ValidationError) -> tuple[DecodingProblem, ...]:
    return tuple(
        DecodingProblem(tuple(map(str, item["loc"][1:])), item["msg"], item["type"], item["input"])
        for item in error.errors(include_url=False)
    )
