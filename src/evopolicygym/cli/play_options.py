"""Options of verbs that play: a flag for each option of a run, and completion of what plays.

Apart from ``cli/options.py``, so that verbs that read load nothing that plays.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import Parameter, signature
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args

import typer

from evopolicygym.checks import KINDS
from evopolicygym.cli.options import complete_environment, matching_names, split_names
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import Option, Spelling

Verb = TypeVar("Verb", bound=Callable[..., None])
SEVERAL = {Spelling.SEVERAL, Spelling.PAIRS, Spelling.JSON_PAIRS}
"""Spellings that may be given several times."""
TRUTHS = {"true": True, "false": False}
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
"""Python's spelling of JSON's constants."""


def complete_agent(incomplete: str) -> list[str]:
    """Return the names of agents that start with a text, without loading an agent."""
    from evopolicygym.agents.base import AGENTS

    return matching_names(AGENTS.names(), incomplete)


def complete_suite(incomplete: str) -> list[str]:
    """Return the names of suites that start with a text."""
    from evopolicygym.runs.suites.suite import suite_names

    return matching_names(suite_names(), incomplete)


def complete_kind(incomplete: str) -> list[str]:
    """Return the kinds of parts that start with a text."""
    return matching_names(KINDS, incomplete)


def complete_part(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of parts of the kind already typed that start with a text."""
    from evopolicygym.checks.part_names import part_names

    kind = ctx.params.get("kind")
    if kind == "environment":
        return complete_environment(incomplete)
    return matching_names(part_names(kind), incomplete) if kind in KINDS else []


COMPLETIONS = {"agent": complete_agent}
"""Completions of options' values."""


def with_flags(options: Iterable[Option], *, in_suite: bool = False) -> Callable[[Verb], Verb]:
    """Give a verb a flag for each option; its ``**flags`` hold the values as typed, for ``given_options``."""
    flags = [
        _parameter(option, in_suite=in_suite)
        for option in options
        if option.flag and (option.in_suites or not in_suite)
    ]

    def decorate(verb: Verb) -> Verb:
        own = signature(verb)
        kept = [parameter for parameter in own.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        arguments = [parameter for parameter in kept if not _is_flag(parameter)]
        others = [parameter for parameter in kept if _is_flag(parameter)]
        verb.__signature__ = own.replace(parameters=[*arguments, *flags, *others])  # type: ignore[attr-defined]
        annotations = {name: kind for name, kind in verb.__annotations__.items() if name in own.parameters}
        verb.__annotations__ = {**annotations, **{flag.name: flag.annotation for flag in flags}, "return": None}
        return verb

    return decorate


def given_options(options: Iterable[Option], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decoded options that flags give; raise ``UsageError`` if a value is invalid."""
    decoded = {
        option.name: _decode_value(option, flags[option.name])
        for option in options
        if flags.get(option.name) not in (None, [])
    }
    return {name: value for name, value in decoded.items() if value not in ({}, [])}


def parse_pairs(flag: str, texts: Iterable[str]) -> dict[str, int | float | str]:
    """Parse texts of the form NAME=VALUE; a value that is a number is converted."""
    return {name: number_or_text(value) for name, value in _pairs(flag, texts)}


def parse_json_pairs(flag: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parse texts of the form NAME=VALUE; a value that is neither a number nor JSON stays text."""
    return {name: _number_json_or_text(value) for name, value in _pairs(flag, texts)}


def _pairs(flag: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.strip().partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{flag} expects NAME=VALUE, got {text.strip()!r}.")
        yield name, value


def _number_json_or_text(text: str) -> Any:  # noqa: ANN401 - any of JSON
    value = number_or_text(text)
    with suppress(ValueError):
        return json.loads(PYTHON_WORDS.get(text, text)) if isinstance(value, str) else value
    return value


def _parameter(option: Option, *, in_suite: bool) -> Parameter:
    kind = _value_type(option)
    info = typer.Option(
        option.flag,
        help=(option.suite_help if in_suite else "") or option.help,
        metavar=option.metavar,
        min=option.minimum,
        rich_help_panel=option.group,
        autocompletion=COMPLETIONS.get(option.name),
        show_default=option.default_shown if option.default_shown and not in_suite else True,
    )
    return Parameter(
        option.name,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[kind | None, info],
    )


def _value_type(option: Option) -> Any:  # noqa: ANN401 - a type as typer takes it
    """Return the type of the value as typed."""
    if option.spelling in SEVERAL:
        return list[str]
    if option.spelling is not Spelling.VALUE:
        return str
    kinds = set(get_args(option.type) or [option.type]) - {NoneType}
    return kinds.pop() if len(kinds) == 1 else str


def _decode_value(option: Option, value: Any) -> Any:  # noqa: ANN401 - any option's
    match option.spelling:
        case Spelling.COMMAS:
            return split_names(value)
        case Spelling.PAIRS:
            return parse_pairs(option.flag, value)
        case Spelling.JSON_PAIRS:
            return parse_json_pairs(option.flag, value)
        case Spelling.PAIRS_WITH_COMMAS:
            pairs = parse_pairs(option.flag, value.split(","))
            if texts := [name for name, text in pairs.items() if isinstance(text, str)]:
                raise UsageError(f"{option.flag}: {texts[0]}={pairs[texts[0]]} is not a number.")
            return pairs
        case _:
            return value


def number_or_text(text: str) -> int | float | str:
    """Convert a text to a number if it is numeric."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _is_flag(parameter: Parameter) -> bool:
    """Return whether typer makes a parameter a flag rather than an argument."""
    declared = next(iter(get_args(parameter.annotation)[1:]), None)
    return not isinstance(declared, typer.models.ArgumentInfo)


def parse_cross(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse NAME=LEVEL,LEVEL texts to the levels of each option, as in ``[cross]`` of a suite's file."""
    return dict(_parse_cross(text) for text in texts)


def _parse_cross(text: str) -> tuple[str, list[Any]]:
    from evopolicygym.runs.suites.cross import CROSSABLE

    name, equals, levels = text.partition("=")
    name = name.strip().replace("-", "_")
    knob = next((option for option in CROSSABLE if option.name == name), None)
    if not equals or not levels.strip():
        raise UsageError(f"--cross expects NAME=LEVEL,LEVEL, such as budget=8,32; got {text!r}.")
    if knob is None:
        raise UnknownName("option that a suite can cross", name, [option.name for option in CROSSABLE])
    if knob.spelling is not Spelling.VALUE:
        raise UsageError(
            f"--cross {name} is not available: its levels are lists or tables. Write them in [cross] of a suite's file."
        )
    return name, [_level(knob, level) for level in split_names(levels)]


def _level(knob: Option, text: str) -> Any:  # noqa: ANN401 - any option's
    """Convert a level to the option's type; other text is kept and refused later, as in a file."""
    from evopolicygym.runs.config import UNLIMITED

    kinds = set(get_args(knob.type) or [knob.type])
    if text == UNLIMITED and NoneType in kinds and str not in kinds:
        return None
    if bool in kinds:
        return TRUTHS.get(text, text)
    return number_or_text(text) if kinds & {int, float} else text
