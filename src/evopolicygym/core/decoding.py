"""Decoding of untyped values into dataclasses by their annotations, with the problems if that fails.

The only module that imports pydantic.
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
    """A problem of a value."""

    path: tuple[str, ...]
    """Keys and indices that lead to it; empty for the whole value."""
    message: str
    kind: str
    """The kind in pydantic's terms, such as ``missing``."""
    found: Any = field(repr=False)
    """The value found. Don't show it unless it can't be a secret."""

    @property
    def is_missing(self) -> bool:
        """Whether a required field is missing."""
        return self.kind == "missing"

    @property
    def is_unknown(self) -> bool:
        """Whether a field is unknown."""
        return self.kind in {"extra_forbidden", "unexpected_keyword_argument"}

    @property
    def where(self) -> str:
        """The path, joined by dots."""
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.path else self.message


class Undecodable(ValueError):
    """A value is invalid. The message is the first problem; ``problems`` lists all."""

    def __init__(self, problems: Sequence[DecodingProblem]) -> None:
        super().__init__(str(problems[0]))
        self.problems = tuple(problems)


class Decoder(Generic[Decoded]):
    """Reads values of one type."""

    def __init__(self, adapter: TypeAdapter[tuple[Decoded]]) -> None:
        self._adapter = adapter

    def value(self, data: object) -> Decoded:
        """Return the decoded value; raise ``Undecodable``."""
        try:
            return self._adapter.validate_python((data,))[0]
        except ValidationError as error:
            raise Undecodable(_problems(error)) from error

    def json(self, text: bytes, *, strict: bool = False) -> Decoded:
        """Return the decoded JSON; raise ``Undecodable``. With ``strict``, strings are not converted to numbers."""
        try:
            return self._adapter.validate_json(b"[%b]" % text, strict=strict or None)[0]
        except ValidationError as error:
            raise Undecodable(_problems(error)) from error


def decoder(kind: type[Decoded], *, allow_unknown: bool = False, allow_inf_nan: bool = True) -> Decoder[Decoded]:
    """Return a decoder for a type; unknown fields are errors, or ignored with ``allow_unknown``."""
    return Decoder(_adapter(_Settings(kind, "ignore" if allow_unknown else "forbid", allow_inf_nan)))


@dataclass(frozen=True, slots=True)
class _Settings:
    kind: Any
    extra: Literal["ignore", "forbid"]
    allow_inf_nan: bool


@cache
def _adapter(settings: _Settings) -> TypeAdapter[Any]:
    # pydantic accepts no settings for a plain dataclass, but passes a tuple's on to the dataclasses inside it
    alias: Any = GenericAlias(tuple, (settings.kind,))
    config = ConfigDict(extra=settings.extra, allow_inf_nan=settings.allow_inf_nan)
    return TypeAdapter[Any](alias, config=config)


def _problems(error: ValidationError) -> tuple[DecodingProblem, ...]:
    return tuple(
        DecodingProblem(tuple(map(str, each["loc"][1:])), each["msg"], each["type"], each["input"])
        for each in error.errors(include_url=False)
    )
