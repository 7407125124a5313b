"""``evopolicygym suites``: list the suites that come with the package."""

from typing import Annotated

import typer
from rich.table import Table

from evopolicygym.cli.console import out, say_json
from evopolicygym.runs.suites.suite import load, names

EXAMPLES = """
Examples:

evopolicygym suites

evopolicygym suites --json | jq '.[].environments'
"""


def suites(
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole suites as JSON.")] = False,
) -> None:
    """List the suites that come with the package."""
    loaded = {one: load(one, {}) for one in names()}
    if as_json:
        say_json([{"name": one, **found.document()} for one, found in loaded.items()])
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("name", "environments", "budget", "what it is"):
        table.add_column(heading)
    for one, found in loaded.items():
        table.add_row(one, str(len(found.environments)), str(found.common["budget"]), found.description)
    out().print(table)
