"""``evopolicygym bundle``: pack finished runs into one archive that anyone can verify and rank."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.options import RunsArgument, RunsBelow
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_problems
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.text import counted

EXAMPLES = """
Examples:

evopolicygym run acrobot --split public --experiment board

evopolicygym bundle runs/board -o mine.tar.gz

evopolicygym bundle runs/board -o small.tar.gz --no-steps   (many times smaller; a replay stands for the steps)

evopolicygym verify mine.tar.gz --replay   (anyone, on another machine)

evopolicygym leaderboard mine.tar.gz theirs.tar.gz
"""


def bundle(
    runs: RunsArgument,
    file: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.tar.gz", help="The archive to write.")],
    no_steps: Annotated[
        bool, typer.Option("--no-steps", help="Leave feedback and hidden episodes' files out; only a replay checks it.")
    ] = False,
    allow_names: Annotated[
        bool,
        typer.Option(
            "--allow-names", help="Pack files that contain your home directory's path, user name or host name."
        ),
    ] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the archive's contents as JSON.")] = False,
) -> None:
    """Pack finished runs, of a public split or a revealed experiment, into one archive that anyone can verify."""
    from evopolicygym.api.read import outputs

    archive = outputs.bundle(runs, file, steps=not no_steps, allow_names=allow_names, runs=below)
    index = archive.index
    if as_json:
        experiments = [asdict(experiment) for experiment in index.experiments]
        paths = [asdict(run) for run in index.runs]
        problems = [problem.document for problem in archive.problems]
        document = {"file": str(archive.file), "files": len(index.files), "runs": paths, "experiments": experiments}
        print_json({**document, "problems": problems})
        return
    print_problems(err(), archive.problems)
    packed = f"{counted(len(index.runs), 'run')}, {counted(len(index.files), 'file')}"
    out().print(f"{archive.file}: {packed}", markup=False, highlight=False, soft_wrap=True)
    for experiment in index.experiments:
        name, missing = experiment.name, len(experiment.missing)
        note = f"{missing} of {experiment.began} runs that experiment {name} began are missing"
        if experiment.began is None:
            note = f"how many runs experiment {name} began is not listed on this machine"
        out().print(note, markup=False, highlight=False, soft_wrap=True)
