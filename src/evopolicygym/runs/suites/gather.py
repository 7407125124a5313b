"""Gathering of shards: their runs are verified and copied into one directory, and missing runs are listed.

A run is copied once it is finished and all of it verifies, its hidden episodes included. It gets no high-water mark, as
this user didn't play it: its experiment lists it as gathered, by which the suite continues. The shards' directories
aren't changed, so that a shard can continue and gathering again adds its runs.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from evopolicygym.core.errors import EvoPolicyGymError, RecordError, StorageError, UsageError
from evopolicygym.records.atomic import flush_tree, rename
from evopolicygym.records.experiment import adopt_experiment, identity_of, ledger_of, list_run
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import JOURNAL, RunRecord, find_runs, read_run
from evopolicygym.records.rollback_guard import FINDING, has_mark
from evopolicygym.records.verify import findings
from evopolicygym.runs.suites.document import (
    SUITE_FILE,
    configuration,
    directory_of,
    first_difference,
    read_document,
    suite_lock,
)
from evopolicygym.runs.suites.records import (
    PlannedRunResult,
    PlannedRunVerdict,
    identities_by_run,
    record_identities,
    result_of_record,
)
from evopolicygym.runs.suites.schedule import Shard, shard_numbers, shards_of_files
from evopolicygym.runs.suites.suite import PlannedRun, SuiteConfig, load_suite, plan, suite_names
from evopolicygym.specs.catalog import spec_sha256

NOT_COPIED = {"lock", "staging"}
"""Files in a run directory that only its process needs."""


@dataclass(frozen=True, slots=True)
class MissingRuns:
    """Missing runs that the same command plays."""

    runs: tuple[PlannedRun, ...]
    shard: Shard | None
    """None if the number of shards is unknown."""
    command: str
    """The command that plays them; empty unless the suite is one that ships, as nothing of a shard is trusted."""


@dataclass(frozen=True, slots=True)
class GatheredSuite:
    """The runs of a suite after gathering."""

    directory: Path
    results: tuple[PlannedRunResult, ...]
    """Results of all runs of the suite; unfinished runs were not copied."""
    missing: tuple[MissingRuns, ...]
    problems: tuple[str, ...]
    """Problems of records that were therefore not copied."""

    @property
    def ok(self) -> bool:
        """Whether the suite is complete."""
        return not self.missing and not self.problems


def gather(sources: Sequence[Path], runs: Path) -> GatheredSuite:
    """Copy the finished runs of a suite's shards into a directory of runs; existing copies are kept.

    Raises ``UsageError`` if the shards are of different experiments or suites, or ``runs`` holds another one;
    ``RecordError`` if the suite is being played in ``runs``.
    """
    directories = [directory for source in sources for directory in _suite_directories(source)]
    if not directories:
        raise UsageError(f"No suite below {', '.join(map(str, sources))}: expected directories with a {SUITE_FILE}.")
    identity, suite = _same_experiment(directories), _same_suite(directories)
    common = {**suite.common, "experiment": directories[0].name, "runs": str(runs)}
    suite = replace(suite, common=common)  # type: ignore[arg-type] # two values of the same types
    planned, target = plan(suite, playable=False), directory_of(suite)
    adopt_experiment(target, identity)
    with suite_lock(suite):
        records, problems = _records_by_run(directories, planned, identity)
        results = []
        for run in planned:
            try:
                results.append(_gather_run(run, records.get(run.number, {}), target))
            except EvoPolicyGymError as error:
                problems.append(str(error))
                results.append(PlannedRunResult(run, PlannedRunVerdict.FAILED, message=str(error)))
            except OSError as error:
                raise StorageError(
                    f"Can't write runs to {target}: {error}. Give another directory: --runs DIR"
                ) from error
    missing = [item.planned for item in results if item.verdict is not PlannedRunVerdict.FINISHED]
    by_shard = tuple(_by_shard(missing, planned, directories, suite))
    return GatheredSuite(target, tuple(results), by_shard, tuple(problems))


def _suite_directories(source: Path) -> Iterator[Path]:
    """Yield the directories of suites at or below a directory."""
    for directory, directories, files in os.walk(source.resolve()):
        directories.sort()
        if JOURNAL in files:
            directories.clear()
        elif SUITE_FILE in files:
            yield Path(directory)


def _same_experiment(directories: Sequence[Path]) -> str:
    identities = {identity_of(directory): directory for directory in directories}
    if len(identities) > 1 or len({directory.name for directory in directories}) > 1:
        raise UsageError(
            f"The shards are of {len(identities)} experiments: {', '.join(map(str, identities.values()))}. All shards "
            f"of a suite need the secret that 'evopolicygym suites secret' writes."
        )
    return next(iter(identities))


def _same_suite(directories: Sequence[Path]) -> SuiteConfig:
    suites = [suite for directory in directories if (suite := read_document(directory))]
    first = configuration(suites[0])
    for directory, suite in zip(directories, suites, strict=True):
        if different := first_difference("suite", first, configuration(suite)):
            name, first_value, value = different
            raise UsageError(
                f"Shards of different suites: {name} is {first_value!r} in {directories[0]} and {value!r} in "
                f"{directory}. Continue each shard with the same command."
            )
    return suites[0]


def _records_by_run(
    directories: Sequence[Path], planned: Sequence[PlannedRun], identity: str
) -> tuple[dict[int, dict[str, RunRecord]], list[str]]:
    """Return the records of each planned run by number and run id, and the problems of other records."""
    fingerprints = {run.number: spec_sha256(run.config.task.environment) for run in planned}
    numbers = {name: number for number, names in identities_by_run(planned).items() for name in reversed(names)}
    records: dict[int, dict[str, RunRecord]] = {}
    problems: list[str] = []
    for root in (root for directory in directories for root in find_runs(directory)):
        try:
            record = read_run(root)
        except RecordError as error:
            if RunPaths(root).journal.stat().st_size:
                problems.append(f"{root} can't be read: {error}")
            continue
        opened = record.state.opened
        number = next((numbers[name] for name in record_identities(opened) if name in numbers), None)
        if opened.experiment != identity:
            problems.append(f"{root} belongs to another experiment.")
        elif number is None:
            problems.append(f"{root} is not a run of the suite: {opened.task.environment.name}, seed {opened.seed}.")
        elif spec_sha256(opened.task.environment) != fingerprints[number]:
            problems.append(
                f"{root} is not a run of the suite: its task is not the suite's {opened.task.environment.name}."
            )
        else:
            by_id = records.setdefault(number, {})
            known = by_id.get(opened.run_id)
            if known is not None and known.hashes[-1] != record.hashes[-1] and known.state.finished:
                problems.append(f"{root} and {known.paths.root} have one run id and differ; the latter is used.")
            else:
                by_id[opened.run_id] = record
    return records, problems


def _gather_run(run: PlannedRun, records: Mapping[str, RunRecord], target: Path) -> PlannedRunResult:
    """Copy a run if it is finished, and return its result.

    Raises ``RecordError`` if it was played twice or does not verify.
    """
    finished = [record for record in records.values() if record.state.finished]
    if not finished:
        return next((result_of_record(run, record) for record in records.values()), PlannedRunResult(run))
    if len(finished) > 1:
        paths = ", ".join(str(record.paths.root) for record in finished)
        raise RecordError(f"{run} was played {len(finished)} times: {paths}. Remove all but one, and gather again.")
    (record,) = finished
    source = record.paths.root
    failed = [finding for finding in findings(source) if not finding.ok]
    failed = [finding for finding in failed if finding.name != FINDING or has_mark(source)]
    if failed:
        raise RecordError(f"{source} does not verify: {failed[0].name}: {failed[0].detail}")
    root = target / Path(*source.parts[-3:])
    if root != source:
        _copy_run(RunPaths(source), RunPaths(root))
    _list_gathered(record)
    return replace(result_of_record(run, record), root=root)


def _copy_run(source: RunPaths, target: RunPaths) -> None:
    """Copy a run directory, its event log last, so that a partial copy is not taken for a run."""
    if target.journal.exists():
        if target.journal.read_bytes() == source.journal.read_bytes():
            return
        raise RecordError(f"{target.root} exists and differs from {source.root}; move it away, and gather again.")

    def ignored(directory: str, names: list[str]) -> set[str]:
        local_files = NOT_COPIED | {source.journal.name} if Path(directory) == source.root else set()
        special = {name for name in names if not _can_be_copied(Path(directory, name))}
        return special | (local_files & set(names))

    shutil.rmtree(target.root, ignore_errors=True)
    shutil.copytree(source.root, target.root, symlinks=True, ignore=ignored)
    last = target.root / f"{target.journal.name}.part"
    last.write_bytes(source.journal.read_bytes())
    flush_tree(target.root)
    rename(last, target.journal)


def _can_be_copied(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _list_gathered(record: RunRecord) -> None:
    """List a run as gathered, so that the suite continues and no count of its runs lacks it."""
    opened = record.state.opened
    ledger = ledger_of(opened.experiment)
    last = ledger.gathered.get(opened.run_id) if ledger else None
    if ledger is None or opened.run_id not in ledger.runs or (last is not None and last not in record.hashes):
        list_run(opened, record.hashes[-1])


def _by_shard(
    missing: Sequence[PlannedRun], planned: Sequence[PlannedRun], directories: Sequence[Path], suite: SuiteConfig
) -> Iterator[MissingRuns]:
    counts = {shard.count for directory in directories for shard in shards_of_files(directory)}
    if len(counts) != 1:
        if missing:
            yield MissingRuns(tuple(missing), None, "")
        return
    (count,) = counts
    words = _suite_words(suite)
    number_of = {run.number: number for run, number in zip(planned, shard_numbers(planned, count), strict=True)}
    for number in sorted({number_of[run.number] for run in missing}):
        shard = Shard(number, count)
        command = " ".join(map(quote, ["evopolicygym", *words, "--shard", str(shard)])) if words else ""
        yield MissingRuns(tuple(run for run in missing if number_of[run.number] == number), shard, command)


def _suite_words(suite: SuiteConfig) -> tuple[str, ...]:
    """Return the words of the command that plays a suite that ships; none for any other, or with other options."""
    experiment = suite.common["experiment"]
    for name in suite_names():
        if configuration(load_suite(name, {})) == configuration(suite):
            return "suite", name, *(() if experiment == name else ("--experiment", experiment))
    return ()
