"""The check of a pack: every task is created and played for some seconds on the pack's Python, without a network.

It needs bubblewrap: the disk is read-only except for the task's private ``/tmp``, where leftover files are found.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.pack import CheckedTask, Pack, PackRecord, PackTask
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import now
from evopolicygym.environments.derived import pack_spec
from evopolicygym.environments.trace import PROCESSES
from evopolicygym.environments.versions import versions
from evopolicygym.packs.installation import PACKAGE, command, installed, needed
from evopolicygym.records import atomic
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.arithmetic import processor
from evopolicygym.sandbox.bwrap import bwrap
from evopolicygym.specs import pack_catalog
from evopolicygym.specs.pack_catalog import decode_record, encode_record
from evopolicygym.version import __version__

PATIENCE_S = 600.0
"""Limit of a task, in seconds."""
ERROR_CHARACTERS = 300
WORKER_TMP = "temporary"
"""Name of the directory that stands for a worker's temporary directory, which is removed with the worker."""


def check(name: str, tasks: Collection[str] = (), output: Path | None = None) -> Iterator[CheckResult]:
    """Check the tasks of a pack (default: all), given by name or id; yield a finding for each.

    ``output`` is a file in which the results are recorded after each task; tasks that passed there, under the same
    versions, are not played again. Raises ``UnknownName``, ``UsageError`` if the pack isn't installed or the file is
    not a record, and ``SandboxError`` without bubblewrap.
    """
    pack = pack_catalog.load(name)
    if not pack.is_beside_us:
        needed(pack)
    bwrap()
    chosen = [pack_catalog.task_of(pack, item) for item in tasks] or pack.tasks
    recording = PackRecording(pack, output) if output else None
    for task in chosen:
        checked = recording.passed(task.name) if recording else None
        if checked is None:
            checked = check_task(pack, task)
            if recording:
                recording.add(checked)
        yield _finding(checked)


def check_task(pack: Pack, task: PackTask) -> CheckedTask:
    """Return the result of one task."""
    try:
        result, leftovers = _try_task(pack_spec(pack, task))
    except (EvoPolicyGymError, ChildProcessError, subprocess.TimeoutExpired) as error:
        return CheckedTask(task.name, task.id, ok=False, wrong=str(error)[-ERROR_CHARACTERS:])
    mismatch, odd_reward = result.pop("mismatch"), result.pop("odd_reward")
    faults = [
        *(["a reset and the same actions do not repeat bit for bit"] if not result["repeats"] else []),
        *([f"an observation is not of its space: {mismatch}"] if mismatch else []),
        *(["a reward was not finite"] if odd_reward else []),
        *([f"it leaves files behind: {', '.join(leftovers)}"] if leftovers else []),
    ]
    return CheckedTask(task.name, task.id, ok=not faults, wrong="; ".join(faults), left=tuple(leftovers), **result)


def _finding(task: CheckedTask) -> CheckResult:
    mean = task.random_mean
    random = "no whole episode" if mean is None else f"random {mean:.4g} over {task.random_episodes}"
    detail = task.wrong or f"{task.steps_per_second} steps a second, {random}"
    more = {name: value for name, value in asdict(task).items() if name not in {"name", "ok", "wrong"}}
    return CheckResult(task.name, ok=task.ok, detail=detail, more={**more, "left": list(task.left)})


def _try_task(spec: EnvironmentSpec) -> tuple[dict[str, Any], list[str]]:
    """Run a task's trial; return its results and leftover files. Raises ``ChildProcessError``."""
    with TemporaryDirectory() as directory:
        for name in ("home", WORKER_TMP):
            (Path(directory) / name).mkdir()
        request = {"spec": asdict(replace(spec, success=None)), "path": [] if spec.pack else sys.path}
        process = subprocess.run(
            [*_sandbox_command(directory, spec.pack), *command(spec.pack, "evopolicygym.checks.pack_trial")],
            input=json.dumps(request).encode(),
            capture_output=True,
            env=_variables(),
            timeout=PATIENCE_S,
            check=False,
        )
        leftovers = sorted(_leftover_files(Path(directory)))
    if process.returncode or not process.stdout:
        errors = process.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ChildProcessError(f"exit code {process.returncode}: {' '.join(errors[-2:])}")
    return json.loads(process.stdout), leftovers


def _sandbox_command(temporary: str, pack: str) -> list[str]:
    """Return the bubblewrap command line that cuts a process off from the network and the disk."""
    visible = {sys.prefix, sys.base_prefix, str(PACKAGE)}
    if installation := installed(pack) if pack else None:
        visible.update((str(installation.directory), str(installation.base)))
    elif not pack:
        visible.update(path for path in sys.path if Path(path).is_dir())  # modules of the author
    mounts = [word for path in sorted(visible) for word in ("--ro-bind", path, path)]
    return [
        *(bwrap(), "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", temporary, "/tmp"),  # noqa: S108 - in the sandbox
        *(*mounts, "--chdir", f"/tmp/{WORKER_TMP}", "--"),  # noqa: S108 - as above
    ]


def _variables() -> dict[str, str]:
    temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), f"/tmp/{WORKER_TMP}")  # noqa: S108 - in the sandbox
    own = {"HOME": "/tmp/home", "XDG_CACHE_HOME": "/tmp/home/.cache"}  # noqa: S108 - as above
    return {**os.environ, **arithmetic.variables(), **temporary, **own, "PYTHONDONTWRITEBYTECODE": "1"}


def _leftover_files(directory: Path) -> Iterator[str]:
    """Yield a task's leftover files in its ``/tmp``, except temporary files and caches."""
    for path in directory.rglob("*"):
        inside = path.relative_to(directory)
        if path.is_file() and inside.parts[0] != WORKER_TMP and inside.parts[:2] != ("home", ".cache"):
            yield inside.as_posix()


class PackRecording:
    """The record of a check, which is rewritten after each task."""

    def __init__(self, pack: Pack, file: Path) -> None:
        """Continue a record of the same versions, or replace it. Raises ``UsageError``."""
        self._file, self._order = file, [task.name for task in pack.tasks]
        self._empty = PackRecord(
            pack.name, __version__, "", processor(), pack.requirements, checked_versions(pack), tasks=()
        )
        before = decode_record(file.read_bytes(), str(file)) if file.exists() else self._empty
        continues = _identity(before) == _identity(self._empty)
        self._tasks = {item.name: item for item in before.tasks} if continues else {}

    def passed(self, name: str) -> CheckedTask | None:
        """Return the recorded result of a task that passed, repeated in several processes; None otherwise."""
        task = self._tasks.get(name)
        return task if task and task.ok and (task.repetitions or 1) >= PROCESSES else None

    def add(self, task: CheckedTask) -> None:
        """Record a task's result."""
        self._tasks[task.name] = task
        record = PackRecord(
            pack=self._empty.pack,
            evopolicygym=self._empty.evopolicygym,
            date=now().partition("T")[0],
            processor=self._empty.processor,
            requirements=self._empty.requirements,
            versions=self._empty.versions,
            tasks=tuple(self._tasks[name] for name in self._order if name in self._tasks),
        )
        self._file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(self._file, encode_record(record))


def checked_versions(pack: Pack) -> dict[str, str]:
    """Return the installed versions of Python, numpy, gymnasium and the pack's packages."""
    if pack.is_beside_us:
        return versions(pack_spec(pack, pack.tasks[0]))
    installation = needed(pack)
    by_name = {name.lower().replace("_", "-"): version for name, version in installation.versions.items()}
    names = ("numpy", "gymnasium", *pack.packages)
    return {"python": installation.python, **{name: by_name[name] for name in names if name in by_name}}


def _identity(record: PackRecord) -> tuple[object, ...]:
    return record.pack, record.evopolicygym, record.requirements, dict(record.versions)
