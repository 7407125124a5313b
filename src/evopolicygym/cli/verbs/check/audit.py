"""``evopolicygym audit``: show what an agent did: own simulators, searches, installations, network, answers."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from evopolicygym.cli.options import RunsArgument, RunsBelow, split_names
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_problems, print_table
from evopolicygym.core.directories import DEFAULT_RUNS

if TYPE_CHECKING:
    from evopolicygym.api.read.diagnosis import Audit

EXAMPLES = """
Examples:

evopolicygym audit RUN

evopolicygym audit runs   (a row for each run: how many findings of each grade)

evopolicygym audit RUN --only own_simulator,case_answers --json

evopolicygym audit runs --fail-on serious   (exit code 1 if a finding is serious)
"""


class FailOn(StrEnum):
    """The lowest grade of a finding that makes the exit code 1."""

    NOTE = "note"
    LOOK = "look"
    SERIOUS = "serious"


def audit(
    runs: RunsArgument,
    only: Annotated[
        list[str] | None, typer.Option(help="A kind of finding; several with commas, or given several times.")
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit with code 1 if a finding has this grade or a graver one.")
    ] = None,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
) -> None:
    """Show what an agent did beyond its submissions: graded findings with evidence, never a verdict.

    It reads the transcript, the workspace and every checkpoint, and runs none of them. Grades: note (honest agents do
    it too), look (read the context), serious (the evidence shows what the rules forbid).
    """
    from evopolicygym.api.read import diagnosis

    report = diagnosis.audit(runs, split_names(",".join(only or ())), runs=below)
    if as_json:
        print_json(report.document)
    else:
        _print(report)
    if fail_on and report.has(fail_on.value):
        raise typer.Exit(1)


def _print(report: "Audit") -> None:
    print_problems(err(), report.problems)
    for table in report.tables:
        if table.rows:
            print_table(out(), table)
            continue
        out().print(Text("nothing was found", "bold"))
        for note in table.notes:
            out().print(Text(f"- {note}", "dim"), soft_wrap=True)
