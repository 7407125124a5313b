"""``evopolicygym suite``: play agents in environments, several runs at once; resumes where it stopped."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from evopolicygym.api.play.estimate import SuiteEstimate
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.options import complete_environment
from evopolicygym.cli.output import (
    Quiet,
    Verbose,
    Verbosity,
    err,
    out,
    print_error,
    print_json,
    print_warning,
    progress_console,
    set_verbosity,
)
from evopolicygym.cli.play_options import complete_agent, complete_suite, given_options, parse_cross, with_flags
from evopolicygym.cli.suite_view import SuiteView, failures, log_update, plan_table, score_table
from evopolicygym.cli.tables import show_estimate
from evopolicygym.cli.verbs.play.packs import install_packs
from evopolicygym.core.options import COMMON_OPTIONS, RUN_OPTIONS, nest_options
from evopolicygym.core.text import shell_word
from evopolicygym.records.experiment import REVEALED_FILE
from evopolicygym.runs.config import parse_duration
from evopolicygym.runs.expected_use import estimate_suite, load_played_runs, refuse_over_limits
from evopolicygym.runs.suites.document import directory_of
from evopolicygym.runs.suites.play import Observer, Update, play_suite, prepare_suite
from evopolicygym.runs.suites.records import PlannedRunResult, find_results
from evopolicygym.runs.suites.schedule import Shard
from evopolicygym.runs.suites.suite import ENTRY_OPTIONS, MissingPacks, PlannedRun, load_suite, parse_entry

EXAMPLES = """
Examples:

evopolicygym suite smoke   (the tuner in three quick environments)

evopolicygym suite core16 --agent codex:gpt-5.5@high --agent tuner --repeats 3 --jobs 4

evopolicygym suite minigrid --agent neutral:NAME --model-url URL --model-key VARIABLE --max-cost 5 --dry-run

evopolicygym suite core16 --executor ray --address 10.0.0.1:6379 --jobs 4 --workers 8   (on a cluster)

evopolicygym suite smoke --cross budget=4,16 --repeats 3   (each combination of levels; see: effects)

evopolicygym suite core16 --repeats 5 --runs shards/3 --shard 3/16   (on the third of 16 machines)

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
    jobs: Annotated[int | None, typer.Option(help="Runs that play at once. Default: half the number of cores.")] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Play only part I of N, each on its own machine.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and exit.")] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Print the expected hours, tokens and cost, and play nothing.")
    ] = False,
    total_cost: Annotated[
        float | None,
        typer.Option(help="Refuse the suite if its expected cost is higher.", metavar="USD"),
    ] = None,
    total_time: Annotated[
        str | None,
        typer.Option(help="Refuse the suite if its expected time is longer: 90s, 2h30m, 1d.", metavar="DURATION"),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON, without progress.")] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Play agents in environments, several runs at once; the same command again continues.

    Exit code 1 if a run was not finished.
    """
    verbosity = set_verbosity(quiet=quiet, verbose=verbose)
    suite_options = {
        "agents": [parse_entry(text) for text in agent] if agent else None,
        "environments": environment,
        "cross": parse_cross(cross or []),
        "repeats": repeats,
        "jobs": jobs,
    }
    common = nest_options(COMMON_OPTIONS, given_options(COMMON_OPTIONS, flags))
    given = {**common, **{name: value for name, value in suite_options.items() if value not in (None, [], {})}}
    suite_config = load_suite(name, given, nest_options(ENTRY_OPTIONS, given_options(ENTRY_OPTIONS, flags)))
    part = Shard.parse(shard) if shard else None
    try:
        suite_config, planned = prepare_suite(suite_config, print_warning, part, to_play=not estimate)
    except MissingPacks as missing:
        if as_json or not missing.can_be_installed or not _confirm_installation(missing):
            raise
        install_packs(missing.packs)
        suite_config, planned = prepare_suite(suite_config, print_warning, part, to_play=not estimate)
    directory = directory_of(suite_config)
    if suite_config.common["split"] != "public" and (directory / REVEALED_FILE).exists():
        name = suite_config.common["experiment"]
        print_warning(f"The cases of experiment {name} were revealed, so they are no longer hidden.")
    if estimate:
        played = load_played_runs(Path(suite_config.common["runs"]))
        show_estimate(SuiteEstimate(estimate_suite(suite_config, planned, played)), as_json=as_json)
        return
    refuse_over_limits(suite_config, planned, total_cost, None if total_time is None else parse_duration(total_time))
    if dry_run:
        _show_plan(list(find_results(planned, directory).values()), as_json=as_json)
        return

    @contextmanager
    def observing(results: Mapping[int, PlannedRunResult]) -> Iterator[Observer]:
        view = SuiteView(progress_console(verbosity, as_json=as_json), results)

        def observe(run: PlannedRun, update: Update) -> None:
            view.observe(run, update)
            log_update(run, update)

        with view.live():
            yield observe

    with interruptible():
        results, was_completed = play_suite(suite_config, planned, observing, part)
    _show_end(results, directory, verbosity, part, as_json=as_json)
    if not was_completed:
        print_error("interrupted; nothing is lost. The same command continues.")
        raise typer.Exit(INTERRUPTED)
    if any(result.verdict != "finished" for result in results):
        raise typer.Exit(1)


def _is_at_a_terminal() -> bool:
    return sys.stdin.isatty() and err().is_terminal


def _confirm_installation(missing: MissingPacks) -> bool:
    """Ask at a terminal whether to install missing packs; return False elsewhere."""
    if not _is_at_a_terminal():
        return False
    print_error(str(missing))
    megabytes = sum(pack.size_mb for pack in missing.packs)
    return typer.confirm(f"Install what is missing now ({megabytes} MB)?", err=True)


def _show_plan(results: Sequence[PlannedRunResult], *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(results))
    else:
        out().print(plan_table(results))


def _show_end(
    results: Sequence[PlannedRunResult], directory: Path, verbosity: Verbosity, shard: Shard | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(_as_json(results))
        return
    out().print(score_table(results))
    if any(result.verdict != "finished" for result in results):
        out().print(failures(results))
    if verbosity is not Verbosity.QUIET:
        verb = "suites gather" if shard else "leaderboard"
        out().print(Text(f"next    evopolicygym {verb} {shell_word(directory)}", style="dim"), soft_wrap=True)


def _as_json(results: Sequence[PlannedRunResult]) -> list[dict[str, Any]]:
    return [result_fields(result) for result in results]


def result_fields(result: PlannedRunResult) -> dict[str, Any]:
    """Return a run's result as JSON."""
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
