"""``suite.json``, beside the runs of a suite: its configuration, which must not change while the suite continues.

It lists no runs and contains no keys.
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
from evopolicygym.records.atomic import is_locked, lock_file
from evopolicygym.records.paths import RunPaths, experiment_directory
from evopolicygym.records.reader import find_runs
from evopolicygym.records.rollback_guard import check_state_dir_writable
from evopolicygym.runs.suites.schedule import Shard, shards_of_files
from evopolicygym.runs.suites.suite import SuiteConfig, decode_suite, entry_name

SUITE_FILE, LOCK_FILE, UPDATE_LOCK_FILE, LOG_FILE = "suite.json", "suite.lock", "suite.json.lock", "suite.log"
MAX_BYTES = 16 << 20
"""The largest size of a ``suite.json``."""
NOT_STORED = frozenset(
    {"description", "experiment", "runs", "readable", "jobs", "workers", "executor", "address", "track"}
)
"""Options that don't affect results: where and how runs are played."""
MAY_GROW = ("environments", "agents", "cross", "repeats")


@contextmanager
def suite_lock(suite: SuiteConfig, shard: Shard | None = None) -> Iterator[tuple[int, ...]]:
    """Lock a suite or a shard and update its document; yield the descriptors of the locks.

    Shards of the same count can be played at the same time; their lock files' names tell gathering how many there are.
    Raises ``RecordError`` if another process holds the lock, ``UsageError``
    if the stored suite differs or the state directory isn't writable.
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
        _update_document(suite, shard)
        yield tuple(locks)


def _refuse_other_shards(directory: Path, shard: Shard) -> None:
    """Raise ``RecordError`` if shards of another count are being played, which would overlap."""
    for other in shards_of_files(directory):
        if other.count != shard.count and is_locked(directory / other.lock_file):
            raise RecordError(f"Shard {other} of the suite in {directory} is being played; {shard} would overlap it.")


def _update_document(suite: SuiteConfig, shard: Shard | None) -> None:
    """Write the suite's configuration, merged with the stored one; shards wait for each other here."""
    directory = directory_of(suite)
    lock = lock_file(directory / UPDATE_LOCK_FILE, str(directory / SUITE_FILE), wait=True)
    try:
        atomic.remove_temp_files(directory / SUITE_FILE)
        stored = read_document(directory) if shard else read_started(directory)
        merged = configuration(suite)
        if stored is not None:
            merged = merge_configurations(configuration(stored), merged)
        if stored is None or merged != configuration(stored):
            document = {"schema_version": SCHEMA_VERSION, "suite": merged}
            atomic.write_text(directory / SUITE_FILE, json.dumps(document, indent=2) + "\n")
    finally:
        os.close(lock)


def check_document(suite: SuiteConfig) -> None:
    """Raise ``UsageError`` if a suite conflicts with the one that was started in its experiment."""
    if (stored := read_started(directory_of(suite))) is not None:
        merge_configurations(configuration(stored), configuration(suite))


def directory_of(suite: SuiteConfig) -> Path:
    """Return the directory of a suite's runs; raise ``UsageError`` for an invalid experiment name."""
    return experiment_directory(Path(suite.common["runs"]), suite.common["experiment"])


def read_started(directory: Path) -> SuiteConfig | None:
    """Return the stored suite; None if no run was opened yet, so that nothing depends on it."""
    stored = read_document(directory)
    return stored if any(map(_was_opened, find_runs(directory))) else None


def _was_opened(root: Path) -> bool:
    try:
        return RunPaths(root).journal.stat().st_size > 0
    except FileNotFoundError:  # just removed, because it could not be opened
        return False


def read_document(directory: Path) -> SuiteConfig | None:
    """Return the suite stored in a directory; None if there is none."""
    file = directory / SUITE_FILE
    try:
        document = json.loads(regular_file.read(file, MAX_BYTES))
        version, fields = document["schema_version"], document["suite"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"Invalid {file}: expected a suite: {error}.") from error
    if version != SCHEMA_VERSION:
        raise RecordError(f"Invalid {file}: expected schema version {SCHEMA_VERSION}, got {version}.")
    try:
        return decode_suite(fields, str(file))
    except UsageError as error:
        raise RecordError(str(error)) from error


def configuration(suite: SuiteConfig) -> dict[str, Any]:
    """Return the options that a suite's results depend on, as JSON with a label for each agent."""
    fields = {name: value for name, value in suite.document().items() if name not in NOT_STORED}
    for table, entry in zip(fields["agents"], suite.agents, strict=True):
        table["label"] = entry_name(entry)
    return fields


def merge_configurations(stored: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored configuration with added environments, agents, levels and repeats.

    Raises ``UsageError`` if anything else differs. No run depends on these additions, and a request for
    a part of the suite removes nothing.
    """
    _refuse_other_knobs(stored.get("cross", {}), new.get("cross", {}))
    before, now = _by_label(stored), _by_label(new)
    pairs = [(name, stored[name], value) for name, value in new.items() if name not in MAY_GROW]
    pairs += [(f"agents.{label}", before[label], now[label]) for label in now if label in before]
    for name, old, value in pairs:
        if different := first_difference(name, old, value):
            raise UsageError(_mismatch_message(*different))
    crossed = {"cross": _more_levels(stored["cross"], new["cross"])} if "cross" in stored else {}
    return {
        **stored,
        **crossed,
        "environments": list(dict.fromkeys([*stored["environments"], *new["environments"]])),
        "agents": list({**before, **now}.values()),
        "repeats": max(stored["repeats"], new["repeats"]),
    }


def _more_levels(stored: Mapping[str, list[Any]], new: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the levels of both configurations by knob."""
    return {name: [*levels, *(level for level in new[name] if level not in levels)] for name, levels in stored.items()}


def _refuse_other_knobs(stored: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` if the crossed knobs differ; levels may be added."""
    if set(stored) != set(new):
        was, crossed = (", ".join(names) or "none" for names in (stored, new))
        raise UsageError(
            f"Invalid cross: expected {was}, as when the suite started, got {crossed}. Levels may be added; to cross "
            f"other options, start another suite with --experiment NAME."
        )


def _by_label(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {table["label"]: table for table in fields["agents"]}


def first_difference(name: str, old: object, value: object) -> tuple[str, object, object] | None:
    """Return the name and both values of the first field that differs."""
    if isinstance(old, Mapping) and isinstance(value, Mapping):
        inner = (first_difference(f"{name}.{key}", old.get(key), value.get(key)) for key in {**old, **value})
        return next(filter(None, inner), None)
    return None if old == value else (name, old, value)


def _mismatch_message(name: str, old: object, value: object) -> str:
    hint = ", or give the agent another label" if name.startswith("agents.") else ""
    return (
        f"Invalid {name}: expected {json.dumps(old)}, as when the suite started, got {json.dumps(value)}: its "
        f"runs would not be comparable. Restore it, or start another suite with --experiment NAME{hint}. "
        f"Environments, agents, crossed levels and repeats may be added."
    )
