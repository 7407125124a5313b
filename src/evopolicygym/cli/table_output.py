"""How a verb prints the tables that it found: in which format, and where notes go that the format has no place for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evopolicygym.analysis.tables.formats import FORMATS, written
from evopolicygym.cli.console import err, out, say
from evopolicygym.cli.printing import print_table, tell_notes
from evopolicygym.core.errors import UnknownName

if TYPE_CHECKING:
    from evopolicygym.analysis.tables.table import Table


def chosen_format(named: str, *, as_json: bool) -> str:
    """Return the format that ``--format`` and ``--json`` ask for; raise ``UnknownName``."""
    form = "json" if as_json else named
    if form not in (known := ("table", "json", *FORMATS)):
        raise UnknownName("format", form, known)
    return form


def print_tables(tables: "Sequence[Table]", form: str, noted: "Sequence[Table]" = ()) -> None:
    """Print tables in any format but JSON; as CSV, the notes of these and of ``noted`` go to the error stream."""
    if form == "table":
        for table in tables:
            print_table(out(), table)
        return
    say(written(tables, form), end="")
    if form == "csv":
        tell_notes(err(), [*tables, *noted])
