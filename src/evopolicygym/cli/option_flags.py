"""The flags by which a verb takes declared options: ``run`` those of a run, ``suite`` those that its runs share.

Which options there are is declared in ``core/run_options.py``.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from inspect import Parameter, signature
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args

import typer

from evopolicygym.cli.arguments import names
from evopolicygym.cli.completion import complete_agent
from evopolicygym.core.errors import UsageError
from evopolicygym.core.option import DeclaredOption, Spelling

Verb = TypeVar("Verb", bound=Callable[..., None])
COMPLETIONS = {"agent": complete_agent}
"""What a shell proposes for an option's value."""
SEVERAL = {Spelling.SEVERAL, Spelling.PAIRS}
"""Spellings that may be given several times."""


def with_flags(options: Iterable[DeclaredOption], *, in_suite: bool = False) -> Callable[[Verb], Verb]:
    """Give a verb a flag for each option; its parameter ``**flags`` is then given them, by ``given_options`` read."""
    flags = [
        _parameter(one, in_suite=in_suite) for one in options if one.flag and (one.option.in_suites or not in_suite)
    ]

    def decorate(verb: Verb) -> Verb:
        own = signature(verb)
        kept = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        arguments = [one for one in kept if not _is_flag(one)]
        others = [one for one in kept if _is_flag(one)]
        verb.__signature__ = own.replace(parameters=[*arguments, *flags, *others])  # type: ignore[attr-defined]
        annotations = {name: kind for name, kind in verb.__annotations__.items() if name in own.parameters}
        verb.__annotations__ = {**annotations, **{one.name: one.annotation for one in flags}, "return": None}
        return verb

    return decorate


def given_options(options: Iterable[DeclaredOption], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given by flags, decoded; raise ``UsageError`` where a value is invalid."""
    found = {one.name: _decoded(one, flags[one.name]) for one in options if flags.get(one.name) not in (None, [])}
    return {name: value for name, value in found.items() if value not in ({}, [])}


def pairs(flag: str, texts: Iterable[str]) -> dict[str, int | float | str]:
    """Return what texts of the form NAME=VALUE hold; what is a number becomes one."""
    found: dict[str, int | float | str] = {}
    for text in texts:
        name, equals, value = text.strip().partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{flag} expects NAME=VALUE, got {text.strip()!r}.")
        found[name] = number_or_text(value)
    return found


def _parameter(one: DeclaredOption, *, in_suite: bool) -> Parameter:
    option = one.option
    shown: str | bool = one.default_shown if one.default_shown and not in_suite else True
    info = typer.Option(
        one.flag,
        help=(option.suite_help if in_suite else "") or option.help,
        metavar=option.metavar,
        min=option.minimum,
        rich_help_panel=option.group,
        autocompletion=COMPLETIONS.get(one.name),
        show_default=shown,
    )
    return Parameter(
        one.name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[_typed(one) | None, info]
    )


def _typed(one: DeclaredOption) -> Any:  # noqa: ANN401 - a type as typer takes it
    """Return the type of what is typed."""
    if one.option.spelling in SEVERAL:
        return list[str]
    if one.option.spelling is not Spelling.ONE:
        return str
    kinds = set(get_args(one.kind) or [one.kind]) - {NoneType}
    return kinds.pop() if len(kinds) == 1 else str


def _decoded(one: DeclaredOption, value: Any) -> Any:  # noqa: ANN401 - any option's
    match one.option.spelling:
        case Spelling.COMMAS:
            return names(value)
        case Spelling.PAIRS:
            return pairs(one.flag, value)
        case Spelling.PAIRS_WITH_COMMAS:
            found = pairs(one.flag, value.split(","))
            if texts := [name for name, text in found.items() if isinstance(text, str)]:
                raise UsageError(f"{one.flag}: {texts[0]}={found[texts[0]]} is not a number.")
            return found
        case _:
            return value


def number_or_text(text: str) -> int | float | str:
    """Return the number that a text is, or the text."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _is_flag(parameter: Parameter) -> bool:
    """Return whether typer makes a flag of a parameter of a verb, and no argument."""
    declared = next((one for one in get_args(parameter.annotation)[1:]), None)
    return not isinstance(declared, typer.models.ArgumentInfo)
