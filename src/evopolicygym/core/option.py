"""An option of a run, declared once.

From one declaration follow the flag of the command line, the key of a TOML file (of a run and of a suite), the argument
of ``evopolicygym.run``, the row in the docs' table, and whether runs must agree in it before they are pooled. The
options themselves are declared in ``run_options.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, get_args, get_type_hints


class Spelling(StrEnum):
    """How the command line spells a value."""

    ONE = "one"
    """``--name VALUE``."""
    SEVERAL = "several"
    """``--name VALUE``, which may be given several times."""
    COMMAS = "commas"
    """``--name VALUE,VALUE``."""
    PAIRS = "pairs"
    """``--name NAME=VALUE``, which may be given several times."""
    PAIRS_WITH_COMMAS = "pairs with commas"
    """``--name NAME=VALUE,NAME=VALUE``."""
    ARGUMENT = "argument"
    """No flag: the words stand by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is declared of an option, beside its name and its type."""

    help: str
    """In a line."""
    details: str = ""
    """What the docs' table says in place of ``help``, in Markdown."""
    default: Any = None
    """The value where none is given; None also where it is found out later."""
    default_shown: str | None = None
    """The default in words, where the value doesn't say it."""
    group: str = "Other options"
    """The heading below which ``--help`` shows it."""
    metavar: str | None = None
    """What stands for the value in ``--help``."""
    minimum: int | None = None
    spelling: Spelling = Spelling.ONE
    flag: str = ""
    """The flag's name, where it isn't the option's."""
    tables: tuple[str, ...] = ()
    """The tables of a TOML file that it lies in, from the outermost; none for the top of the file."""
    key: str = ""
    """Its key there, where it isn't the option's name."""
    in_suites: bool = True
    """Whether the command line of a suite has it too."""
    suite_help: str = ""
    """The help of a suite's flag, where it isn't the same."""
    compared_as: str = ""
    """What runs that are pooled must agree in, in words; empty where they needn't."""
    held_as: str = ""
    """Where a task holds it, such as ``budget.episodes``; empty for one among the task's ``choices``, by its name."""
    recorded_as: str = ""
    """The property of a run's result that holds it; empty for one that stands among its ``choices``, by its name."""
    of_cases: bool = False
    """Whether it decides on which cases runs are scored, so that entries can't be split by it."""
    crossed: bool = False
    """Whether a suite may cross it though runs needn't agree in it."""


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One option with its name and the type of its value."""

    name: str
    kind: Any
    option: Option

    @property
    def flag(self) -> str:
        """The flag of the command line; empty where there is none."""
        if self.option.spelling is Spelling.ARGUMENT:
            return ""
        return "--" + (self.option.flag or self.name).replace("_", "-")

    @property
    def is_knob(self) -> bool:
        """Whether a suite may cross it: runs that differ in it alone are of one experiment, on the same cases."""
        return self.option.crossed or bool(self.option.compared_as and not self.option.of_cases)

    @property
    def key(self) -> str:
        """Its key in its table of a TOML file."""
        return self.option.key or self.name

    @property
    def in_table(self) -> "DeclaredOption":
        """The option as the outermost of its tables sees it."""
        return replace(self, option=replace(self.option, tables=self.option.tables[1:]))

    @property
    def default_shown(self) -> str:
        """The default in words; empty where there is nothing to say."""
        if self.option.default_shown is not None:
            return self.option.default_shown
        return "" if self.option.default in (None, "", [], {}) else str(self.option.default)


def declared_options(options: type) -> tuple[DeclaredOption, ...]:
    """Return what a ``TypedDict`` declares: each field is ``Annotated[type, Option(...)]``."""
    hints = get_type_hints(options, include_extras=True)
    parts = {name: get_args(hint) for name, hint in hints.items()}
    return tuple(DeclaredOption(name, kind, option) for name, (kind, option) in parts.items())


def nested(options: tuple[DeclaredOption, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return given options as a TOML file has them: each in its table."""
    document: dict[str, Any] = {}
    for one in options:
        if one.name in given:
            table = document
            for name in one.option.tables:
                table = table.setdefault(name, {})
            table[one.key] = given[one.name]
    return document


def flat(options: tuple[DeclaredOption, ...], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a document by their names, as ``nested`` was given them."""
    found: dict[str, Any] = {}
    for one in options:
        table: Mapping[str, Any] = document
        for name in one.option.tables:
            table = table.get(name) or {}
        if one.key in table:
            found[one.name] = table[one.key]
    return found
