"""``evopolicygym post-hoc``: play the held-out cases with the checkpoints that were not selected."""

from typing import Annotated

import typer
from rich.progress import Progress

from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.options import Isolation, RunsArgument, RunsBelow, Trust
from evopolicygym.cli.output import err, out, print_error, print_json
from evopolicygym.cli.tables import print_problems
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.records.checked import open_usable_runs
from evopolicygym.records.reader import Problem, find_paths
from evopolicygym.runs.replay import ReplayOptions, missing_post_hoc, play_post_hoc

EXAMPLES = """
Examples:

evopolicygym post-hoc RUN

evopolicygym post-hoc runs/default   (every finished run below it)

evopolicygym diagnose runs/default --only generalisation   (shows the regret afterwards)
"""


def post_hoc(
    runs: RunsArgument,
    workers: Annotated[int | None, typer.Option(min=1, help="Episodes that play at once.")] = None,
    isolation: Isolation = "auto",
    trust: Trust = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, without progress.")] = False,
) -> None:
    """Play the held-out cases with every checkpoint of finished runs; the score doesn't change.

    The results are kept in post_hoc.json beside run.json: how much better another checkpoint would have been.
    """
    opened = open_usable_runs(find_paths(runs, below))
    tasks = {run.root: run.summary.task for run in opened.runs}
    episodes = {root: len(missing_post_hoc(root)) * task.held_out_cases for root, task in tasks.items()}
    problems = list(opened.problems)
    options, results = ReplayOptions(workers, isolation=isolation, trusted=trust), {}
    try:
        with interruptible(), Progress(console=err(), disable=as_json) as progress:
            bar = progress.add_task("playing held-out cases", total=sum(episodes.values()))
            for root in tasks:
                try:
                    results[root] = play_post_hoc(root, lambda: progress.advance(bar), options)
                except (RecordError, UsageError) as error:
                    if len(tasks) == 1:
                        raise
                    problems.append(Problem(root, str(error)))
    except KeyboardInterrupt:
        print_error("interrupted; finished checkpoints are kept. The same command continues.")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        documents = [
            {"run": str(root), "checkpoints_played": result.checkpoints, "isolation": result.isolation or None}
            for root, result in results.items()
        ]
        print_json({"runs": documents, "problems": [problem.document for problem in problems]})
    else:
        print_problems(err(), problems)
        for root, result in results.items():
            at = f" at isolation {result.isolation}" if result.isolation else ""
            line = f"{root}: {result.checkpoints} checkpoints played{at}"
            out().print(line, soft_wrap=True, markup=False, highlight=False)
