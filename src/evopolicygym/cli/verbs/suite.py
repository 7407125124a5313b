"""``evopolicygym suite``: agents by environments by repeats, played together and to be gone on with."""

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evopolicygym.cli.completion import complete_agent, complete_environment, complete_suite
from evopolicygym.cli.console import complain, out, say_json, warn
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.loudness import LOG, Loudness, Quiet, Verbose, log_word, loudness, progress_console

if TYPE_CHECKING:
    from evopolicygym.runs.suites.progress import Word
    from evopolicygym.runs.suites.records import RunResult
    from evopolicygym.runs.suites.suite import PlannedRun, SuiteTable

EXAMPLES = """
Examples:

evopolicygym suite smoke   (the tuner in three quick environments)

evopolicygym suite core16 --agent codex:gpt-5.5@high --agent tuner --repeats 3 --jobs 4

evopolicygym suite minigrid --agent neutral:NAME --model-url URL --model-key VARIABLE --max-cost 5 --dry-run

evopolicygym suite core16 --executor ray --address 10.0.0.1:6379 --jobs 4 --workers 8   (on a cluster)

evopolicygym suite mine.toml   (again: goes on where it stopped; see docs/use/suites.md)
"""


def suite(
    name: Annotated[
        str, typer.Argument(help="A suite's name (see: suites), or a .toml file.", autocompletion=complete_suite)
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:MODEL[@EFFORT]]",
            help="Who plays; may be given several times. Default: tuner.",
            autocompletion=complete_agent,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What every agent can be given besides; may be given several times."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model of every agent that names none.")] = None,
    effort: Annotated[str | None, typer.Option(metavar="LEVEL", help="How much it is to think.")] = None,
    model_url: Annotated[str | None, typer.Option(help="The one model server that agents may reach.")] = None,
    model_key: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="The environment variable that holds the server's key.")
    ] = None,
    model_wire: Annotated[
        str | None, typer.Option(help="What the server speaks: auto, responses, chat, messages or gemini.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(metavar="USD", help="What the model may cost in a run.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens that the model may use in a run.")] = None,
    max_time: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Wall time of an agent's turns: 45m, 2h30m, 1d; none.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns of an agent in a run.")] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            help="Play these only; may be given several times.", metavar="NAME", autocompletion=complete_environment
        ),
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="How often each agent plays each environment.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs that are played at once. Default: half as many as there are cores.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Episodes of a run that play at once. Default: one for each of its cores.")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Train episodes that an agent may spend in a run.")] = None,
    validation: Annotated[int | None, typer.Option(help="Hidden cases that pick a checkpoint (1 to 64).")] = None,
    held_out: Annotated[int | None, typer.Option(help="Hidden cases that score it (1 to 256).")] = None,
    films: Annotated[int | None, typer.Option(help="Films that an agent may ask for in a run.")] = None,
    policy_packages: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME]", help="Installed packages that policies may import besides."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="private, public, or a directory with train.json, valid.json, heldout.json.")
    ] = None,
    experiment: Annotated[str | None, typer.Option(help="What the suite's runs lie below. Default: its name.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first repeat; each further one has the next.")] = None,
    runs: Annotated[Path | None, typer.Option(help="Where records go. Default: runs.")] = None,
    isolation: Annotated[str | None, typer.Option(help="auto, bubblewrap, process or none.")] = None,
    waive: Annotated[
        list[str] | None,
        typer.Option(metavar="WALL", help="Play even where a level lacks this wall here: seccomp or landlock."),
    ] = None,
    executor: Annotated[
        str | None, typer.Option(help="Where episodes play: local, ray, or package.module:Class.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of the executor's cluster. Default: one of its own.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be played, and leave.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON, and no progress.")] = False,
) -> None:
    """Play agents in environments, several runs at once; the same command again goes on where it stopped.

    Exit code 1 where a run could not be finished.
    """
    from evopolicygym.cli.tables import names
    from evopolicygym.cli.verbs.run import given_options, pairs
    from evopolicygym.cli.workers import capped
    from evopolicygym.runs.experiment import REVEALED_FILE
    from evopolicygym.runs.suites.document import check, directory_of
    from evopolicygym.runs.suites.records import found
    from evopolicygym.runs.suites.suite import entry, load, looked_over, plan

    loud = loudness(quiet=quiet, verbose=verbose)
    given = {
        "agents": [entry(text) for text in agent] if agent else None,
        "environments": environment or None,
        "repeats": repeats,
        "jobs": jobs,
        "workers": workers,
        "budget": budget,
        "validation": validation,
        "held_out": held_out,
        "films": films,
        "policy_packages": names(policy_packages) if policy_packages else None,
        "split": split,
        "experiment": experiment,
        "seed": seed,
        "runs": None if runs is None else str(runs),
        "isolation": isolation,
        "waive": waive or None,
        "executor": executor,
        "address": address,
    }
    limits = given_options(max_cost=max_cost, max_tokens=max_tokens, max_time=max_time, max_turns=max_turns)
    every = given_options(
        options=pairs("--option", option or []),
        model=model,
        effort=effort,
        model_url=model_url,
        model_key=model_key,
        model_wire=model_wire,
        limits=limits,
    )
    asked = load(name, given_options(**given), every)
    asked = asked.model_copy(update={"workers": capped(asked.workers, asked.executor)})
    planned = plan(asked)
    warnings = looked_over(planned)
    check(asked)
    for warning in warnings:
        warn(warning)
    directory = directory_of(asked)
    if asked.split != "public" and (directory / REVEALED_FILE).exists():
        warn(f"The cases of experiment {asked.experiment} were revealed, so they are hidden from nobody any more.")
    if dry_run:
        _show_plan(list(found(planned, directory).values()), as_json=as_json)
        return
    results, undisturbed = _play(asked, loud, as_json=as_json)
    _show_end(results, directory, loud, as_json=as_json)
    if not undisturbed:
        complain("interrupted; nothing is lost. Go on with the same command.")
        raise typer.Exit(INTERRUPTED)
    if any(one.verdict != "finished" for one in results):
        raise typer.Exit(1)


def _play(asked: "SuiteTable", loud: Loudness, *, as_json: bool) -> tuple[list["RunResult"], bool]:
    """Play what is not finished; return all results, and whether nobody interrupted it."""
    from evopolicygym.cli.suite_view import SuiteView
    from evopolicygym.rollout.executor import LOCAL
    from evopolicygym.runs.suites.document import LOG_FILE, directory_of, held
    from evopolicygym.runs.suites.play import Suite, jobs_by_default, shares
    from evopolicygym.runs.suites.records import found
    from evopolicygym.runs.suites.suite import plan

    directory = directory_of(asked)
    cores = sorted(os.sched_getaffinity(0))
    with interruptible(), held(asked) as lock:
        results = found(plan(asked), directory)
        waiting = max(1, sum(one.verdict != "finished" for one in results.values()))
        jobs = min(asked.jobs or jobs_by_default(len(cores) if asked.executor == LOCAL else 1), waiting)
        playing = Suite(results, shares(cores, jobs), lock)
        view = SuiteView(progress_console(loud, as_json=as_json), results)
        LOG.info("%s runs at once, on cores %s; log %s", jobs, cores, directory / LOG_FILE)

        def observe(run: "PlannedRun", said: "Word | RunResult") -> None:
            view.observe(run, said)
            log_word(run, said)

        with view.live():
            undisturbed = playing.play(directory / LOG_FILE, observe)
    return list(playing.results.values()), undisturbed


def _show_plan(results: Sequence["RunResult"], *, as_json: bool) -> None:
    from evopolicygym.cli.suite_view import plan_table

    if as_json:
        say_json(_as_json(results))
    else:
        out().print(plan_table(results))


def _show_end(results: Sequence["RunResult"], directory: Path, loud: Loudness, *, as_json: bool) -> None:
    from rich.text import Text

    from evopolicygym.cli.suite_view import failures, score_table

    if as_json:
        say_json(_as_json(results))
        return
    out().print(score_table(results))
    if any(one.verdict != "finished" for one in results):
        out().print(failures(results))
    if loud is not Loudness.QUIET:
        out().print(Text(f"next    evopolicygym leaderboard {quote(str(directory))}", style="dim"), soft_wrap=True)


def _as_json(results: Sequence["RunResult"]) -> list[dict[str, Any]]:
    return [_fields(one) for one in results]


def _fields(result: "RunResult") -> dict[str, Any]:
    run = result.planned
    return {
        "environment": run.environment,
        "agent": run.entry,
        "repeat": run.repeat,
        "seed": run.config.seed,
        "verdict": result.verdict.value,
        "run": str(result.root) if result.root else None,
        "score": result.score,
        "standard_error": result.standard_error,
        "reason": result.reason,
        "message": result.message,
    }
