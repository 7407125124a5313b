"""``evopolicygym show``: show a run: its submissions, the selected one, its score beside others."""

from typing import Annotated

import typer

from evopolicygym.api.read.submissions import submissions_table
from evopolicygym.cli.options import RunArgument, RunsBelow
from evopolicygym.cli.outcome import as_json as outcome_as_json
from evopolicygym.cli.outcome import show_outcome
from evopolicygym.cli.output import out, print_json
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.text import printable
from evopolicygym.records.checked import look_at_run
from evopolicygym.records.labels import RunLabels, read_labels
from evopolicygym.records.reader import find_run, read_run

EXAMPLES = """
Examples:

evopolicygym show runs/default/tuner/acrobot/20261121-060000-ab12

evopolicygym show latest

evopolicygym show 20261121-06   (the beginning of a run's id)

evopolicygym show RUN --json | jq .outcome.score
"""


def show(
    run: RunArgument,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Show a run: its submissions, the selected one, its score beside anchors and published entries."""
    run = find_run(run, below)
    record = read_run(run)
    state = record.state
    if as_json:
        print_json(outcome_as_json(run))
        return
    if state.submissions:
        out().print(submissions_table(state, shown=len(state.submissions)))
    for trouble in filter(None, (submission.trouble for submission in state.submissions)):
        out().print(printable(trouble), style="yellow", markup=False, soft_wrap=True)
    labels = read_labels(run)
    if labels != RunLabels():
        texts = [labels.name, ", ".join(labels.tags), labels.note]
        out().print(printable("; ".join(filter(None, texts))), markup=False, soft_wrap=True)
    show_outcome(out(), record, look_at_run(run), submissions_shown=True)
