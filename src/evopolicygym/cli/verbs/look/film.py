"""``evopolicygym film``: film episodes from a run's record."""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.options import Isolation, RunArgument, RunsBelow, Trust
from evopolicygym.cli.output import err, out, print_error, print_json
from evopolicygym.core.cases import Split
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import number
from evopolicygym.records.films import film_document
from evopolicygym.records.reader import find_run
from evopolicygym.runs.film import FilmOptions, MadeFilm, films
from evopolicygym.runs.replay import ReplayOptions

EXAMPLES = """
Examples:

evopolicygym film RUN   (the selected submission's first held-out case)

evopolicygym film RUN --case 0-3,7 --every 4 --size 320x240

evopolicygym film RUN --submission 5 --split train --case all -o films
"""
SIZE = re.compile(r"(\d{1,4})x(\d{1,4})", re.ASCII)
SMALLEST, LARGEST = 16, 4096


def film(
    run: RunArgument,
    submission: Annotated[int | None, typer.Option(help="A submission's number. Default: the selected one.")] = None,
    selected: Annotated[bool, typer.Option("--selected", help="Film the selected submission.")] = False,
    split: Annotated[Split, typer.Option(help="The split to film; hidden ones only once the run is finished.")] = (
        Split.HELD_OUT
    ),
    case: Annotated[
        list[str] | None, typer.Option(help="Episodes by index in the submission or split: 0-3,7 or all. Default: 0.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The directory to write into. Default: RUN/films.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Steps from one frame to the next.")] = 1,
    fps: Annotated[float | None, typer.Option(min=0.1, max=240, help="Frames a second. Default: real time.")] = None,
    size: Annotated[str, typer.Option(help="WIDTHxHEIGHT that films must fit into. Default: the simulator's.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace films that already exist.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Unrecorded episodes that play at once.")] = None,
    isolation: Isolation = "auto",
    trust: Trust = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON, without progress.")] = False,
) -> None:
    """Film a run's episodes from its record and compare each with it. Exit code 1 if one differs."""
    run = find_run(run, below)
    if selected and submission is not None:
        raise UsageError(f"--selected and --submission {submission} are mutually exclusive.")
    options = FilmOptions(split, submission, ",".join(case or ["0"]), output, every, fps, _parse_size(size), force)
    made: list[MadeFilm] = []
    try:
        with interruptible(), Progress(console=err(), disable=as_json, transient=True) as progress:
            bar = progress.add_task("filming", total=None)
            for made_film in films(
                run,
                options,
                ReplayOptions(workers, isolation=isolation, trusted=trust),
                lambda name, done, of: progress.update(bar, description=name, completed=done, total=of),
            ):
                made.append(made_film)
                if not as_json:
                    _print(made_film)
    except KeyboardInterrupt:
        print_error("interrupted; complete films are kept. The same command continues.")
        raise typer.Exit(INTERRUPTED) from None
    same = all(made_film.film.same is not False for made_film in made)
    if as_json:
        described = [
            {
                "path": str(made_film.path),
                "was_there": made_film.was_there,
                "isolation": made_film.isolation or None,
                **film_document(made_film.film),
            }
            for made_film in made
        ]
        print_json({"run": str(run), "ok": same, "films": described})
    if not same:
        raise typer.Exit(1)


def _parse_size(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = SIZE.fullmatch(text)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if not all(SMALLEST <= side <= LARGEST for side in size):
        raise UsageError(f"--size expects WIDTHxHEIGHT such as 320x240, each {SMALLEST} to {LARGEST}; got {text!r}.")
    return size


def _print(made_film: MadeFilm) -> None:
    film, shot = made_film.film, made_film.film.shot
    mark = {True: "same as recorded, bit for bit", None: "not recorded: played again", False: "DIFFERS from the record"}
    verdict = mark[film.same] + (f" ({film.doubt})" if film.doubt else "")
    recorded = f", recorded {number(film.recorded.episode_return)}" if film.same is False and film.recorded else ""
    origin = (
        ", already there"
        if made_film.was_there
        else f", its policy at isolation {made_film.isolation}"
        if made_film.isolation
        else ""
    )
    facts = f"{shot.frames} frames at {shot.fps:g} fps, {shot.width}x{shot.height}"
    earned = number(shot.episode_return)
    style = "bold red" if film.same is False else None
    line = f"{made_film.path}: {facts}, return {earned}{recorded}; {verdict}{origin}"
    out().print(line, soft_wrap=True, markup=False, highlight=False, style=style)
