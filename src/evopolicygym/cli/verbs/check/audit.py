"""``evopolicygym audit``: look at what an agent did: own simulators, searches, installations, network, answers."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import evopolicygym
from evopolicygym.cli.options import RunsArgument, RunsBelow, split_names
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_problems, print_table
from evopolicygym.core.places import DEFAULT_RUNS

if TYPE_CHECKING:
    from evopolicygym.api.diagnosis import Audit

EXAMPLES = """
Examples:

evopolicygym audit RUN

evopolicygym audit runs   (a row for each run: how many findings of each grade)

evopolicygym audit RUN --only own_simulator,case_answers --json

evopolicygym audit runs --fail-on serious   (exit code 1 where anything serious is found)
"""


class FailOn(StrEnum):
    """The least grade of a finding for which the exit code is 1."""

    NOTE = "note"
    LOOK = "look"
    SERIOUS = "serious"


def audit(
    runs: RunsArgument,
    only: Annotated[
        list[str] | None, typer.Option(help="A kind of finding; several with commas, or given several times.")
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit with 1 where a finding has this grade or a graver one.")
    ] = None,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
) -> None:
    """Look at what an agent did beyond its submissions: findings with evidence, graded, never a verdict.

    It reads the transcript, the workspace and every checkpoint, and runs nothing of them. Grades: note (agents that
    keep the rules do it too), look (read what stands around it), serious (the words show what the rules forbid).
    """
    found = evopolicygym.audit(runs, split_names(",".join(only or ())), runs_directory=below)
    if as_json:
        print_json(found.document)
    else:
        _print(found)
    if fail_on and found.has(fail_on.value):
        raise typer.Exit(1)


def _print(found: "Audit") -> None:
    print_problems(err(), found.problems)
    for table in found.tables:
        if table.rows:
            print_table(out(), table)
            continue
        out().print(Text("nothing was found", "bold"))
        for note in table.notes:
            out().print(Text(f"- {note}", "dim"), soft_wrap=True)
