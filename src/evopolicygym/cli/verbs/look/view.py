"""``evopolicygym view``: show runs in a browser."""

import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import RunsBelow, RunsOrAll, split_names
from evopolicygym.cli.output import print_text
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.records.reader import find_paths
from evopolicygym.viewer.site.access import redirect_page
from evopolicygym.viewer.site.serving import ServedViewer

EXAMPLES = """
Examples:

evopolicygym view runs

evopolicygym view runs --tables paper --port 8000 --no-open
"""


def view(
    runs: RunsOrAll = None,
    port: Annotated[int, typer.Option(help="The port on this machine; 0 for any free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address and open no browser.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    tables: Annotated[
        str, typer.Option("--tables", help="Shipped tables to show with the runs initially, such as paper.")
    ] = "",
) -> None:
    """Show runs in a browser: leaderboard, learning curves, every submission's change and feedback, every episode."""
    with (
        interruptible(),
        ServedViewer(find_paths(runs or None, below), port, split_names(tables)) as viewer,
        tempfile.TemporaryDirectory(prefix="evopolicygym-view-") as scratch,
    ):
        print_text(f"The runs are shown at {viewer.entrance} (Ctrl-C ends it)")
        if not no_open:
            page = Path(scratch) / "open.html"  # other users of this machine can read the browser's command line
            page.write_text(redirect_page(viewer.entrance), encoding="utf-8")
            webbrowser.open(page.as_uri())
        try:
            viewer.wait()
        except KeyboardInterrupt:
            print_text("")
