"""The check of a pack: every task is made and played for some seconds, on the pack's Python, without a network.

It is played where bubblewrap is: the disk is read-only there but for ``/tmp``, which is the task's own, so that every
file that it leaves is seen. What is played is described in ``pack_task/trial.py``.
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

from evopolicygym.checks.pack_recording import PackRecording
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.finding import Finding
from evopolicygym.core.pack import CheckedTask, Pack, PackTask
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.derived import pack_spec
from evopolicygym.packs.installation import installed, needed
from evopolicygym.packs.interpreter import PACKAGE, command
from evopolicygym.rollout import arithmetic
from evopolicygym.sandbox.confinement.bwrap import bwrap
from evopolicygym.specs import pack_catalog

PATIENCE_S = 600.0
"""Seconds that a task may take."""
LAST_WORDS = 300
OWN_TEMPORARY = "temporary"
"""The directory that stands for a worker's own, which is removed with it: what is left there does no harm."""


def check(name: str, tasks: Collection[str] = (), output: Path | None = None) -> Iterator[Finding]:
    """Check the tasks of a pack, by its name or file, or some of them by name or id; yield a finding each.

    They are recorded in the file ``output``, where one is given; what has passed there, under the same versions, is not
    played again. Raises ``UnknownName``, ``UsageError`` where the pack isn't installed or the file is no record, and
    ``SandboxError`` where there is no bubblewrap.
    """
    pack = pack_catalog.load(name)
    if not pack.is_beside_us:
        needed(pack)
    bwrap()
    asked = [pack_catalog.task_of(pack, one) for one in tasks] or pack.tasks
    recording = PackRecording(pack, output) if output else None
    for task in asked:
        checked = recording.passed(task.name) if recording else None
        if checked is None:
            checked = check_task(pack, task)
            if recording:
                recording.add(checked)
        yield _finding(checked)


def check_task(pack: Pack, task: PackTask) -> CheckedTask:
    """Return what came of one task."""
    try:
        found, left = _tried(pack_spec(pack, task))
    except (EvoPolicyGymError, ChildProcessError, subprocess.TimeoutExpired) as error:
        return CheckedTask(task.name, task.id, ok=False, wrong=str(error)[-LAST_WORDS:])
    mismatch, odd_reward = found.pop("mismatch"), found.pop("odd_reward")
    wrong = [
        *(["a reset and the same actions do not repeat bit for bit"] if not found["repeats"] else []),
        *([f"an observation is not of its space: {mismatch}"] if mismatch else []),
        *(["a reward was not finite"] if odd_reward else []),
        *([f"it leaves files behind: {', '.join(left)}"] if left else []),
    ]
    return CheckedTask(task.name, task.id, ok=not wrong, wrong="; ".join(wrong), left=tuple(left), **found)


def _finding(task: CheckedTask) -> Finding:
    mean = task.random_mean
    random = "no whole episode" if mean is None else f"random {mean:.4g} over {task.random_episodes}"
    detail = task.wrong or f"{task.steps_per_second} steps a second, {random}"
    more = {name: value for name, value in asdict(task).items() if name not in {"name", "ok", "wrong"}}
    return Finding(task.name, ok=task.ok, detail=detail, more={**more, "left": list(task.left)})


def _tried(spec: EnvironmentSpec) -> tuple[dict[str, Any], list[str]]:
    """Return what a task's own process says of it, and the files that it leaves; raise ``ChildProcessError``."""
    with TemporaryDirectory() as place:
        for name in ("home", OWN_TEMPORARY):
            (Path(place) / name).mkdir()
        request = {"spec": asdict(replace(spec, success=None)), "path": [] if spec.pack else sys.path}
        done = subprocess.run(
            [*_walls(place, spec.pack), *command(spec.pack, "evopolicygym.checks.pack_task.trial")],
            input=json.dumps(request).encode(),
            capture_output=True,
            env=_variables(),
            timeout=PATIENCE_S,
            check=False,
        )
        left = sorted(_left(Path(place)))
    if done.returncode or not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ChildProcessError(f"exit code {done.returncode}: {' '.join(said[-2:])}")
    return json.loads(done.stdout), left


def _walls(place: str, pack: str) -> list[str]:
    """Return the beginning of a command line that keeps a process from the network and from the disk."""
    needs = {sys.prefix, sys.base_prefix, str(PACKAGE)}
    if own := installed(pack) if pack else None:
        needs.add(str(own.directory))
    elif not pack:
        needs.update(place for place in sys.path if Path(place).is_dir())  # modules of an author's own
    shown = [word for path in sorted(needs) for word in ("--ro-bind", path, path)]
    return [
        *(bwrap(), "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", place, "/tmp"),  # noqa: S108 - in there
        *(*shown, "--chdir", f"/tmp/{OWN_TEMPORARY}", "--"),  # noqa: S108 - as above
    ]


def _variables() -> dict[str, str]:
    temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), f"/tmp/{OWN_TEMPORARY}")  # noqa: S108 - in the sandbox
    own = {"HOME": "/tmp/home", "XDG_CACHE_HOME": "/tmp/home/.cache"}  # noqa: S108 - as above
    return {**os.environ, **arithmetic.variables(), **temporary, **own, "PYTHONDONTWRITEBYTECODE": "1"}


def _left(place: Path) -> Iterator[str]:
    """Yield the files that a task left in its ``/tmp``, but for what goes with its worker, and caches in its home."""
    for path in place.rglob("*"):
        inside = path.relative_to(place)
        if path.is_file() and inside.parts[0] != OWN_TEMPORARY and inside.parts[:2] != ("home", ".cache"):
            yield inside.as_posix()
