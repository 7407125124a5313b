"""Writes those tables of the docs that follow from declarations: ``python docs/tables.py``, or ``make docs``.

Each stands between a line ``<!-- table: NAME -->`` and a line ``<!-- end of table -->``.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from evopolicygym.core.option import DeclaredOption
from evopolicygym.core.run_options import RUN_OPTIONS

PAGE = Path(__file__).parent / "reference" / "command_line.md"
OPTIONS = re.compile(r"(<!-- table: options of a run -->\n).*?(<!-- end of table -->\n)", re.DOTALL)


def options_table(options: Iterable[DeclaredOption]) -> str:
    """Return the table of options, a row each: its flag, its key in a TOML file, its default, what it is."""
    rows = [
        f"| {_code(one.flag)} | `{'.'.join([*one.option.tables, one.key])}` | {one.default_shown} "
        f"| {one.option.details or _phrase(one.option.help)} |\n"
        for one in options
    ]
    return "".join(["| option | in a file | default | |\n", "|---|---|---|---|\n", *rows])


def with_tables(text: str) -> str:
    """Return a page with its tables as they are now."""
    return OPTIONS.sub(lambda found: f"{found[1]}{options_table(RUN_OPTIONS)}{found[2]}", text)


def _phrase(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _code(flag: str) -> str:
    return f"`{flag}`" if flag else "`-- COMMAND …`"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
