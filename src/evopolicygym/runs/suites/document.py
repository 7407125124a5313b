"""``suite.json``, beside the runs of a suite: what they have in common, so that nobody goes on with something else.

The runs themselves are found by what their records say (``records.py``). No key is ever in here.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import SCHEMA_VERSION
from evopolicygym.records import atomic
from evopolicygym.records.atomic import is_locked, lock_file, write_all
from evopolicygym.records.paths import RunPaths, experiment_directory
from evopolicygym.records.reader import find_runs
from evopolicygym.records.rollback_guard import check_state_dir_writable
from evopolicygym.runs.suites.shards import Shard, shards_of_files
from evopolicygym.runs.suites.suite import SuiteConfig, entry_name, suite_of

SUITE_FILE, LOCK_FILE, UPDATE_LOCK_FILE, LOG_FILE = "suite.json", "suite.lock", "suite.json.lock", "suite.log"
MOST_BYTES = 16 << 20
"""Of a ``suite.json``."""
NOT_KEPT = frozenset({"description", "experiment", "runs", "jobs", "workers", "executor", "address", "track"})
"""What no result depends on: where and how runs are played."""
MAY_GROW = ("environments", "agents", "cross", "repeats")


@contextmanager
def suite_lock(suite: SuiteConfig, shard: Shard | None = None, command: str = "") -> Iterator[tuple[int, ...]]:
    """Hold the lock of a suite, or of a shard of it, and keep its document; yield the locks' descriptors.

    A shard's ``command`` is kept in its lock file, for who gathers shards and finds that runs are missing. Shards of
    one number can be played at the same time, each once. Raises ``RecordError`` where another process has the lock,
    ``UsageError`` where the document says otherwise or nothing can be kept in the state directory.
    """
    check_state_dir_writable()
    directory = directory_of(suite)
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        owner = f"The suite in {directory}"
        locks = [lock_file(directory / LOCK_FILE, owner, shared=shard is not None)]
        stack.callback(os.close, locks[0])
        if shard:
            locks.append(lock_file(directory / shard.lock_file, f"Shard {shard} of the suite in {directory}"))
            stack.callback(os.close, locks[1])
            _refuse_other_shards(directory, shard)
            os.ftruncate(locks[1], 0)
            write_all(locks[1], command.encode(), 0)
        _keep_document(suite, shard)
        yield tuple(locks)


def _refuse_other_shards(directory: Path, shard: Shard) -> None:
    """Raise ``RecordError`` where shards of another number are played, which hold the same runs in other parts."""
    for other in shards_of_files(directory):
        if other.count != shard.count and is_locked(directory / other.lock_file):
            raise RecordError(f"Shard {other} of the suite in {directory} is being played; {shard} would overlap it.")


def _keep_document(suite: SuiteConfig, shard: Shard | None) -> None:
    """Write what a suite's runs have in common, grown by what is asked for; shards wait for each other here."""
    directory = directory_of(suite)
    lock = lock_file(directory / UPDATE_LOCK_FILE, str(directory / SUITE_FILE), wait=True)
    try:
        atomic.remove_temp_files(directory / SUITE_FILE)
        kept = read(directory) if shard else begun(directory)
        grown = configuration(suite) if kept is None else joined(configuration(kept), configuration(suite))
        if kept is None or grown != configuration(kept):
            document = {"schema_version": SCHEMA_VERSION, "suite": grown}
            atomic.write_text(directory / SUITE_FILE, json.dumps(document, indent=2) + "\n")
    finally:
        os.close(lock)


def check(suite: SuiteConfig) -> None:
    """Raise ``UsageError`` where a suite is not the one that was begun in its experiment."""
    if (kept := begun(directory_of(suite))) is not None:
        joined(configuration(kept), configuration(suite))


def directory_of(suite: SuiteConfig) -> Path:
    """Return where the runs of a suite lie; raise ``UsageError`` where its experiment's name is none."""
    return experiment_directory(Path(suite.common["runs"]), suite.common["experiment"])


def begun(directory: Path) -> SuiteConfig | None:
    """Return what ``read`` does; None where no run was opened yet, and so nothing depends on what the suite was."""
    kept = read(directory)
    return kept if any(map(_was_opened, find_runs(directory))) else None


def _was_opened(root: Path) -> bool:
    try:
        return RunPaths(root).journal.stat().st_size > 0
    except FileNotFoundError:  # forgotten at this moment, as it could not be opened
        return False


def read(directory: Path) -> SuiteConfig | None:
    """Return the suite that was begun in a directory, with all that it has grown by; None where there is none."""
    file = directory / SUITE_FILE
    try:
        document = json.loads(regular_file.read(file, MOST_BYTES))
        version, fields = document["schema_version"], document["suite"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{file} can't be read as a suite: {error}.") from error
    if version != SCHEMA_VERSION:
        raise RecordError(f"{file} is of schema version {version}; this program reads {SCHEMA_VERSION}.")
    try:
        return suite_of(fields, str(file))
    except UsageError as error:
        raise RecordError(str(error)) from error


def configuration(suite: SuiteConfig) -> dict[str, Any]:
    """Return all of a suite that its results depend on, as JSON; each agent has its label."""
    fields = {name: value for name, value in suite.document().items() if name not in NOT_KEPT}
    for table, entry in zip(fields["agents"], suite.agents, strict=True):
        table["label"] = entry_name(entry)
    return fields


def joined(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was kept, grown by environments, agents, levels and repeats; ``UsageError`` where else they differ.

    A run depends on nothing else in its suite, so that one that has grown is as good as one that began so; and asking
    for a part of it forgets nothing.
    """
    _refuse_other_knobs(kept.get("cross", {}), asked.get("cross", {}))
    before, now = _by_label(kept), _by_label(asked)
    pairs = [(name, kept[name], value) for name, value in asked.items() if name not in MAY_GROW]
    pairs += [(f"agents.{label}", before[label], now[label]) for label in now if label in before]
    for name, then, here in pairs:
        if different := difference(name, then, here):
            raise UsageError(_refusal(*different))
    crossed = {"cross": _more_levels(kept["cross"], asked["cross"])} if "cross" in kept else {}
    return {
        **kept,
        **crossed,
        "environments": list(dict.fromkeys([*kept["environments"], *asked["environments"]])),
        "agents": list({**before, **now}.values()),
        "repeats": max(kept["repeats"], asked["repeats"]),
    }


def _more_levels(kept: Mapping[str, list[Any]], asked: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the levels of both, by knob."""
    return {name: [*levels, *(level for level in asked[name] if level not in levels)] for name, levels in kept.items()}


def _refuse_other_knobs(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` where a suite crosses other knobs than it was begun with; their levels may be added to."""
    if set(kept) != set(asked):
        then, here = (", ".join(names) or "nothing" for names in (kept, asked))
        raise UsageError(
            f"The suite was begun crossing {then}, and is to cross {here} now. Cross the same knobs to go on (levels "
            f"of them may be added), or begin another with --experiment NAME."
        )


def _by_label(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {table["label"]: table for table in fields["agents"]}


def difference(name: str, then: object, here: object) -> tuple[str, object, object] | None:
    """Return the first field that differs, with both values."""
    if isinstance(then, Mapping) and isinstance(here, Mapping):
        inner = (difference(f"{name}.{key}", then.get(key), here.get(key)) for key in {**then, **here})
        return next(filter(None, inner), None)
    return None if then == here else (name, then, here)


def _refusal(name: str, then: object, here: object) -> str:
    what = " Or give the agent a label of its own." if name.startswith("agents.") else ""
    return (
        f"The suite was begun with {name} = {json.dumps(then)}, and {json.dumps(here)} is asked for now: its runs "
        f"would not be comparable. Ask as before to go on, or begin another with --experiment NAME.{what} "
        f"Environments, agents, levels of what is crossed and repeats may be added."
    )
