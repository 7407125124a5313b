"""``evopolicygym label``: give a run a name, tags and a note."""

from dataclasses import asdict
from typing import Annotated

import typer

from evopolicygym.cli.options import RunArgument, RunsBelow
from evopolicygym.cli.output import print_json, print_text
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.records.labels import change_labels, read_labels, write_labels
from evopolicygym.records.reader import find_run

EXAMPLES = """
Examples:

evopolicygym label latest --name "first with a planner" --tag planner --tag long

evopolicygym label 20261121-06 --untag long --note ""
"""


def label(
    run: RunArgument,
    below: RunsBelow = DEFAULT_RUNS,
    name: Annotated[str | None, typer.Option(help="The run's name; empty to remove it.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag to add; may be repeated.")] = None,
    untag: Annotated[list[str] | None, typer.Option(help="A tag to remove; may be repeated.")] = None,
    note: Annotated[str | None, typer.Option(help="A note; empty to remove it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the labels as JSON.")] = False,
) -> None:
    """Give a run a name, tags and a note, kept beside its directory and never in its record."""
    run = find_run(run, below)
    before = read_labels(run)
    labels = change_labels(before, name, tag or (), untag or (), note)
    if labels != before:
        write_labels(run, labels)
    if as_json:
        print_json(asdict(labels))
        return
    print_text(f"name: {labels.name or '-'}\ntags: {', '.join(labels.tags) or '-'}\nnote: {labels.note or '-'}")
