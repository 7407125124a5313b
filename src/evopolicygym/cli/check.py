"""``evopolicygym check``: the checks that an outsider can run on a part of theirs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from evopolicygym.cli.console import err, out

EXAMPLES = """
Examples:

evopolicygym check environment acrobot

evopolicygym check environment my_environment.toml
"""


def check(
    kind: Annotated[str, typer.Argument(help="What it is: environment.")],
    name: Annotated[str, typer.Argument(help="Its name, as a run would name it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check that a part keeps its contract. Exit code 1 if it doesn't."""
    from rich.table import Table
    from rich.text import Text

    from evopolicygym.core.errors import UnknownName
    from evopolicygym.records.jsontext import dumps

    if kind not in CHECKS:
        raise UnknownName("kind of check", kind, CHECKS)
    with err().status(f"checking {name}"):
        found = list(CHECKS[kind](name))
    ok = all(one.ok for one in found)
    if as_json:
        findings = [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in found]
        typer.echo(dumps({"kind": kind, "name": name, "ok": ok, "findings": findings}, indent=2))
    else:
        table = Table(box=None, padding=(0, 1), show_header=False)
        for one in found:
            mark = Text("ok", "green") if one.ok else Text("FAILED", "bold red")
            table.add_row(mark, Text(one.name), Text(one.detail, "dim"))
        out().print(table)
    if not ok:
        raise typer.Exit(1)


def _environment(name: str) -> Iterable[Any]:
    from evopolicygym.environments.catalog import load
    from evopolicygym.environments.check import check as check_environment

    return check_environment(load(name))


CHECKS: Mapping[str, Callable[[str], Iterable[Any]]] = {"environment": _environment}
