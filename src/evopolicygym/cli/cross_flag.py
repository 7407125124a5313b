"""``--cross NAME=LEVEL,LEVEL`` of a suite: what is typed, as ``[cross]`` of a suite's file has it."""

from collections.abc import Iterable
from types import NoneType
from typing import Any, get_args

from evopolicygym.cli.arguments import names
from evopolicygym.cli.option_flags import number_or_text
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.option import DeclaredOption, Spelling
from evopolicygym.runs.config import UNLIMITED
from evopolicygym.runs.suites.cross import CROSSABLE

TRUTHS = {"true": True, "false": False}


def crossed(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Return the levels of each knob that texts of the form NAME=LEVEL,LEVEL hold; raise ``UsageError``."""
    return dict(_crossed(text) for text in texts)


def _crossed(text: str) -> tuple[str, list[Any]]:
    name, equals, levels = text.partition("=")
    name = name.strip().replace("-", "_")
    knob = next((one for one in CROSSABLE if one.name == name), None)
    if not equals or not levels.strip():
        raise UsageError(f"--cross expects NAME=LEVEL,LEVEL, such as budget=8,32; got {text!r}.")
    if knob is None:
        raise UnknownName("option that a suite can cross", name, [one.name for one in CROSSABLE])
    if knob.option.spelling is not Spelling.ONE:
        raise UsageError(
            f"--cross {name} can't be typed, as each of its levels is a list or a table; [cross] of a suite's file "
            f"can hold them."
        )
    return name, [_level(knob, level) for level in names(levels)]


def _level(knob: DeclaredOption, text: str) -> Any:  # noqa: ANN401 - any option's
    """Return a level of the option's type; what is of none stays text, and is refused as in a file."""
    kinds = set(get_args(knob.kind) or [knob.kind])
    if text == UNLIMITED and NoneType in kinds and str not in kinds:
        return None
    if bool in kinds:
        return TRUTHS.get(text, text)
    return number_or_text(text) if kinds & {int, float} else text
