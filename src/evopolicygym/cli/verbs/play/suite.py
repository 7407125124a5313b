"""``evopolicygym suite``: play agents in environments, several runs at once; resumes where it stopped."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from evopolicygym.cli.completion import complete_agent, complete_environment, complete_suite
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.options import given_options, parse_cross, with_flags
from evopolicygym.cli.output import (
    LOG,
    Quiet,
    Verbose,
    Verbosity,
    log_update,
    out,
    print_error,
    print_json,
    print_warning,
    progress_console,
    set_verbosity,
)
from evopolicygym.cli.suite_view import SuiteView, failures, plan_table, score_table
from evopolicygym.core.options import COMMON_OPTIONS, LOCAL, RUN_OPTIONS, nest_options
from evopolicygym.runs.experiment import REVEALED_FILE
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.runs.suites.document import LOG_FILE, check, directory_of, suite_lock
from evopolicygym.runs.suites.play import Suite, Update, jobs_by_default, shares
from evopolicygym.runs.suites.records import PlannedRunResult, found
from evopolicygym.runs.suites.suite import ENTRY_OPTIONS, PlannedRun, SuiteConfig, entry, load, plan, validate_plan

EXAMPLES = """
Examples:

evopolicygym suite smoke   (the tuner in three quick environments)

evopolicygym suite core16 --agent codex:gpt-5.5@high --agent tuner --repeats 3 --jobs 4

evopolicygym suite minigrid --agent neutral:NAME --model-url URL --model-key VARIABLE --max-cost 5 --dry-run

evopolicygym suite core16 --executor ray --address 10.0.0.1:6379 --jobs 4 --workers 8   (on a cluster)

evopolicygym suite smoke --cross budget=4,16 --repeats 3   (each combination of levels; see: effects)

evopolicygym suite mine.toml   (given again, it continues; see docs/use/suites.md)
"""


@with_flags(RUN_OPTIONS, in_suite=True)
def suite(
    name: Annotated[
        str, typer.Argument(help="A suite's name (see: suites), or a .toml file.", autocompletion=complete_suite)
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:MODEL[@EFFORT]]",
            help="An agent; may be given several times. Default: tuner.",
            autocompletion=complete_agent,
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            help="Play only this environment; may be given several times.",
            metavar="NAME",
            autocompletion=complete_environment,
        ),
    ] = None,
    cross: Annotated[
        list[str] | None,
        typer.Option(
            help="Play every level of this option, such as budget=8,32; with several, every combination.",
            metavar="NAME=LEVEL,…",
        ),
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="How many times each agent plays each environment.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs that play at once. Default: half as many as there are cores.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be played, and exit.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON, without progress.")] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Play agents in environments, several runs at once; the same command again continues.

    Exit code 1 where a run could not be finished.
    """
    loud = set_verbosity(quiet=quiet, verbose=verbose)
    of_suite = {
        "agents": [entry(text) for text in agent] if agent else None,
        "environments": environment,
        "cross": parse_cross(cross or []),
        "repeats": repeats,
        "jobs": jobs,
    }
    common = nest_options(COMMON_OPTIONS, given_options(COMMON_OPTIONS, flags))
    given = {**common, **{name: value for name, value in of_suite.items() if value not in (None, [], {})}}
    asked = load(name, given, nest_options(ENTRY_OPTIONS, given_options(ENTRY_OPTIONS, flags)))
    workers = cap_workers(asked.common["workers"], asked.common["executor"], print_warning)
    asked = replace(asked, common={**asked.common, "workers": workers})
    planned = plan(asked)
    warnings = validate_plan(planned)
    check(asked)
    for warning in warnings:
        print_warning(warning)
    directory = directory_of(asked)
    if asked.common["split"] != "public" and (directory / REVEALED_FILE).exists():
        name = asked.common["experiment"]
        print_warning(f"The cases of experiment {name} were revealed, so they are no longer hidden.")
    if dry_run:
        _show_plan(list(found(planned, directory).values()), as_json=as_json)
        return
    results, undisturbed = _play(asked, loud, as_json=as_json)
    _show_end(results, directory, loud, as_json=as_json)
    if not undisturbed:
        print_error("interrupted; nothing is lost. The same command continues.")
        raise typer.Exit(INTERRUPTED)
    if any(one.verdict != "finished" for one in results):
        raise typer.Exit(1)


def _play(asked: "SuiteConfig", loud: Verbosity, *, as_json: bool) -> tuple[list["PlannedRunResult"], bool]:
    """Play what is not finished; return all results, and whether nobody interrupted it."""
    directory = directory_of(asked)
    cores = sorted(os.sched_getaffinity(0))
    with interruptible(), suite_lock(asked) as lock:
        results = found(plan(asked), directory)
        waiting = max(1, sum(one.verdict != "finished" for one in results.values()))
        jobs = min(asked.jobs or jobs_by_default(len(cores) if asked.common["executor"] == LOCAL else 1), waiting)
        playing = Suite(results, shares(cores, jobs), lock)
        view = SuiteView(progress_console(loud, as_json=as_json), results)
        LOG.info("%s runs at once, on cores %s; log %s", jobs, cores, directory / LOG_FILE)

        def observe(run: "PlannedRun", update: "Update") -> None:
            view.observe(run, update)
            log_update(run, update)

        with view.live():
            undisturbed = playing.play(directory / LOG_FILE, observe)
    return list(playing.results.values()), undisturbed


def _show_plan(results: Sequence["PlannedRunResult"], *, as_json: bool) -> None:

    if as_json:
        print_json(_as_json(results))
    else:
        out().print(plan_table(results))


def _show_end(results: Sequence["PlannedRunResult"], directory: Path, loud: Verbosity, *, as_json: bool) -> None:

    if as_json:
        print_json(_as_json(results))
        return
    out().print(score_table(results))
    if any(one.verdict != "finished" for one in results):
        out().print(failures(results))
    if loud is not Verbosity.QUIET:
        out().print(Text(f"next    evopolicygym leaderboard {quote(str(directory))}", style="dim"), soft_wrap=True)


def _as_json(results: Sequence["PlannedRunResult"]) -> list[dict[str, Any]]:
    return [_fields(one) for one in results]


def _fields(result: "PlannedRunResult") -> dict[str, Any]:
    run = result.planned
    return {
        "environment": run.environment,
        "agent": run.entry,
        "levels": dict(run.levels),
        "repeat": run.repeat,
        "seed": run.config.seed,
        "verdict": result.verdict.value,
        "run": str(result.root) if result.root else None,
        "score": result.score,
        "standard_error": result.standard_error,
        "reason": result.reason,
        "message": result.message,
    }
