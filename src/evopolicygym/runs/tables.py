"""The tables of a run's and a suite's TOML file: made from the options that are declared, and what both refuse.

Which options there are is declared in ``core/run_options.py``; what is made of their values, in ``config.py``.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from evopolicygym.core.decoding import DecodingProblem, Undecodable, decoder
from evopolicygym.core.errors import UsageError
from evopolicygym.core.option import DeclaredOption
from evopolicygym.core.task import Limits

SECRET = re.compile(r"(?:^|_)(?:api_?)?(?:keys?|secrets?|token|passwords?)$", re.IGNORECASE)
"""Names below which somebody might put a key."""
NO_KEYS = (
    "Keys are never given to a run as they are: put yours into an environment variable and name that in model_key "
    "(--model-key VARIABLE)."
)


class TomlTable(BaseModel):
    """A table of a TOML file: what it doesn't know, it refuses. Fields that may be left out have a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PriceTable(TomlTable):
    """``[agent.price]``: US dollars for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


Decoded = TypeVar("Decoded", bound=TomlTable)
_LIMITS: dict[str, Any] = {one.name: (get_type_hints(Limits)[one.name], one.default) for one in fields(Limits)}
LimitsTable = create_model("LimitsTable", __base__=TomlTable, **_LIMITS)
"""``[policy_limits]``."""
TABLES_OF = {"price": PriceTable | None, "policy_limits": LimitsTable}
"""Options whose value is a table with keys of its own."""


def table_of(name: str, options: Iterable[DeclaredOption], **further: Any) -> type[TomlTable]:  # noqa: ANN401 - pydantic's
    """Return the table that holds declared options, each where it says; ``further`` are fields as pydantic has them."""
    own: dict[str, Any] = {}
    inner: dict[str, list[DeclaredOption]] = {}
    for one in options:
        if one.option.tables:
            inner.setdefault(one.option.tables[0], []).append(one)
        else:
            own[one.key] = _field(one)
    own |= further
    for title, held in inner.items():
        below = table_of(f"{name}.{title}", [one.in_table for one in held])
        own[title] = (below, Field(default_factory=below))
    return create_model(name, __base__=TomlTable, **own)


def read_table(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds; raise ``UsageError`` where it can't be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The configuration {file} can't be read: {error.strerror}.") from error
    except ValueError as error:  # of TOML as of UTF-8
        raise UsageError(f"The configuration {file} is no TOML: {error}.") from error


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two tables as one, in which ``above`` overrides; tables that both have are laid over each other."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        result[name] = overlaid(under, value) if both else value  # type: ignore[arg-type]
    return result


def decode(kind: type[Decoded], document: Mapping[str, Any], origin: str) -> Decoded:
    """Return a table; raise ``UsageError`` that names what is wrong in ``origin`` and what would work."""
    try:
        return decoder(kind).value(document)
    except Undecodable as error:
        raise UsageError(f"{origin}: {_wrong(kind, error.problems[0])}") from None


def _field(one: DeclaredOption) -> tuple[Any, Any]:
    kind, default = TABLES_OF.get(one.name, one.kind), one.option.default
    if isinstance(kind, type) and issubclass(kind, TomlTable):
        return kind, Field(default_factory=kind)
    return kind, Field(default_factory=lambda: copy(default))


def _wrong(kind: type[TomlTable], problem: DecodingProblem) -> str:
    """Return what is wrong. No value is ever quoted: there might be a key in it."""
    if problem.is_missing:
        return f"Missing {problem.where}."
    if not problem.is_unknown:
        return f"Invalid {problem.where}: {problem.message[:1].lower()}{problem.message[1:]}."
    *path, name = problem.path
    keys = f" {NO_KEYS}" if SECRET.search(name) else ""
    return f"{problem.where} is not known here. Known: {', '.join(_names(kind, path))}.{keys}"


def _names(kind: type[TomlTable], path: list[str]) -> Iterator[str]:
    """Yield the names that a table within a table may hold."""
    for step in path:
        field = kind.model_fields.get(step)
        inner = [field.annotation, *get_args(field.annotation)] if field else []
        kind = next((one for one in inner if isinstance(one, type) and issubclass(one, TomlTable)), kind)
    yield from kind.model_fields
