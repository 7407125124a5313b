"""The results of runs, from checked records; what is left out is reported as a problem."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evopolicygym.core.check_result import ProgressTracker, no_progress
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.text import printable
from evopolicygym.records.bundle import UnpackedBundle
from evopolicygym.records.checked import CheckedRun, RecordState, open_runs, unusable
from evopolicygym.records.nonce import nonce_finding
from evopolicygym.records.reader import Problem, read_run
from evopolicygym.records.rows import RunRow
from evopolicygym.records.tables import run_row
from evopolicygym.specs.measured_anchors import other_simulators

UNFINISHED = "The run is not finished"


@dataclass(frozen=True, slots=True)
class Results:
    """All runs that could be read, and those that could not."""

    runs: tuple[RunRow, ...] = ()
    problems: tuple[Problem, ...] = ()
    paths: tuple[Path, ...] = ()
    """The directories that were searched; paths of a report are relative to them."""
    bundles: tuple[UnpackedBundle, ...] = ()
    """The bundles among the paths."""


def count_states(runs: Iterable[RunRow]) -> Counter[str]:
    """Return how many records of some runs are in each state, the most believed first."""
    counts = Counter(run.record for run in runs)
    return Counter({state.value: counts[state] for state in RecordState if counts[state]})


def states_text(runs: Iterable[RunRow]) -> str:
    """Return the states of some runs' records, with counts where there are several; empty without runs."""
    counts = count_states(runs)
    return next(iter(counts), "") if len(counts) == 1 else ", ".join(f"{n} {state}" for state, n in counts.items())


def record_notes(runs: Iterable[RunRow]) -> list[str]:
    """Return a note on the states of runs' records, unless all were played here or ship with the package."""
    counts = count_states(runs)
    if counts.keys() <= {RecordState.PLAYED_HERE, RecordState.SHIPPED}:
        return []
    return [f"Records of runs: {', '.join(f'{count} {state}' for state, count in counts.items())}."]


def count_early(runs: Iterable[RunRow]) -> Counter[str]:
    """Return how many runs ended with episodes unspent, by what ended them."""
    return Counter(run.ended_by for run in runs if run.is_early and run.ended_by)


def early_notes(runs: Iterable[RunRow]) -> list[str]:
    """Return a note on runs that ended with episodes unspent, by entry and by what ended them; empty without any."""
    by_entry: dict[str, list[RunRow]] = {}
    for run in runs:
        by_entry.setdefault(run.agent, []).append(run)
    early = {entry: counts for entry, played in by_entry.items() if (counts := count_early(played))}
    if not early:
        return []
    texts = (f"{entry} ({', '.join(f'{n} by {why}' for why, n in counts.items())})" for entry, counts in early.items())
    return [f"Runs that ended with episodes unspent: {'; '.join(texts)}."]


def environment_notes(runs: Iterable[RunRow]) -> list[str]:
    """Return notes on tasks whose runs can't be repeated, whose cases may all be one, or whose simulators differ."""
    played = list(runs)
    varying = sorted({run.task for run in played if run.repeats is False})
    single = sorted({run.task for run in played if run.cases_differ is False})
    versions = {
        text for run in played for text in other_simulators(run.task, run.task_fingerprint or "", run.versions or {})
    }
    notes = list[str]()
    if versions:
        how = "the anchors and shipped scores are of other versions, and may not hold for them."
        notes.append(f"Some runs were played with {'; '.join(sorted(versions))}: {how}")
    if varying:
        how = "Two processes played short episodes differently, so no score can be replayed."
        notes.append(f"Does not repeat: {', '.join(varying)}. {how}")
    if single:
        how = "± is then of one case, not precision (evopolicygym check environment)."
        notes.append(f"The same actions gave one short episode for each seed: {', '.join(single)}. {how}")
    return notes


def load_results(paths: Iterable[Path], follow: ProgressTracker = no_progress, *, needed: bool = False) -> Results:
    """Return the results of all finished runs at or below some paths, each once; bundles are read too.

    Every record is checked (``records/checked.py``); one that doesn't hold is a problem. A copy of a run is a problem,
    not a repeat. ``follow`` wraps the loop over runs, to show progress. Raises as ``open_runs`` does, and
    ``UsageError`` if a place has neither runs nor problems; with ``needed`` also ``RecordError`` if none can be used.
    """
    opened = open_runs(paths, follow)
    results, problems = list[RunRow](), list(opened.problems)
    for run in opened.runs:
        try:
            results.append(result_of(run))
        except RecordError as error:
            problems.append(Problem(run.root, printable(str(error))))
    if not opened.runs and not problems and opened.paths:
        raise UsageError(f"There are no runs below {opened.paths[0]}; a run's directory holds a journal.jsonl.")
    if not results and any(not problem.reason.startswith(UNFINISHED) for problem in problems) and needed:
        raise unusable(problems)
    originals, copies = set_copies_apart(results)
    problems = sorted([*problems, *copies], key=lambda problem: problem.root)
    return Results(originals, tuple(problems), opened.paths, opened.bundles)


def set_copies_apart(results: Iterable[RunRow]) -> tuple[tuple[RunRow, ...], list[Problem]]:
    """Return results, each run's once, and its copies as problems."""
    by_identity: dict[tuple[object, ...], list[RunRow]] = {}
    for result in results:
        by_identity.setdefault(result.identity, []).append(result)
    problems = list[Problem]()
    originals = tuple(_original(copies) for copies in by_identity.values())
    for original, copies in zip(originals, by_identity.values(), strict=True):
        what = f"is a copy of {printable(str(original.root))}: both are the run {original.run_id}, which counts once."
        problems += [Problem(run.root, what) for run in copies if run is not original]
    return originals, problems


def results_of_nonce(results: Results, nonce: str) -> Results:
    """Return the results of runs with a board's nonce and an identity that is their secret's; others are problems."""
    kept, problems = [], list(results.problems)
    for run in results.runs:
        finding = nonce_finding(run.root, read_run(run.root).state.opened, nonce)
        if finding is None or finding.ok:
            kept.append(run)
        else:
            problems.append(Problem(run.root, f"{finding.name}: {finding.detail}"))
    return replace(results, runs=tuple(kept), problems=tuple(problems))


def _original(copies: Sequence[RunRow]) -> RunRow:
    """Return the run whose directory still has the run's id as its name, else the first."""
    return next((run for run in copies if run.root.name == run.run_id), copies[0])


def result_of(run: CheckedRun) -> RunRow:
    """Return the row of a finished run; raise ``RecordError`` if it isn't finished."""
    summary = run.summary
    if not summary.is_finished or summary.outcome.status is None:
        raise RecordError(f"{UNFINISHED} ({summary.stage.value}).")
    return run_row(run)
