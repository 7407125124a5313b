"""Plays every attack against an isolation backend, and compares the results with the backend's guarantees.

No judge takes part: there is no budget and no hidden case. Attacks play on cartpole in sequence, each followed by an
honest policy, whose play must not be affected. Decoys stand for secrets that an attack must not find.
"""

import ast
import json
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evopolicygym.checks import inspection
from evopolicygym.core.rollout import EpisodeJob, Recording
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.packs.installation import packs_directory
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose

DECOYS_FILE = "decoys.json"
LEAK = "LEAK"
OK = "ok"
USUAL_EPISODES = 3


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile policy, and its safe outcome."""

    id: str
    name: str
    """The attack in words."""
    source: str
    submission: str
    """The status that its submission ends with."""
    endings: frozenset[str]
    """Allowed endings of its episodes: ``ok`` or the reason of a failure."""
    guarantees: frozenset[Guarantee]
    """Guarantees that stop it; empty where every backend does."""
    episodes: int
    """Number of episodes to play."""


@cache
def attacks() -> tuple[Attack, ...]:
    """Return every attack, in the order of their ids."""
    found = (file for file in files("evopolicygym.checks").joinpath("attacks").iterdir() if file.name.endswith(".py"))
    return tuple(read(file.read_text(encoding="utf-8")) for file in sorted(found, key=lambda file: file.name))


def attack(identity: str) -> Attack:
    """Return the attack of an id."""
    return next(item for item in attacks() if item.id == identity)


def read(source: str) -> Attack:
    """Return the attack whose policy this is; it is parsed, not run."""
    head, _, rest = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    identity, _, name = " ".join(head.split()).partition(": ")
    fields = dict(line.split(": ", 1) for line in rest.splitlines() if ": " in line)
    return Attack(
        identity,
        name,
        source,
        fields["submission"],
        frozenset(fields["episodes"].split(", ")),
        frozenset(map(Guarantee, filter(None, fields.get("guarantees", "").split(", ")))),
        int(fields.get("played", USUAL_EPISODES)),
    )


MARK = "evopolicygym-attack"
"""Begins the name of whatever an attack tries to leave."""
PLACES = ("/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock")  # noqa: S108 - looked at, not used
"""Directories in which attacks try to leave files, besides their own and the user's home."""


@dataclass(frozen=True, slots=True)
class Decoys:
    """The decoys that attacks are given, and the traps behind them."""

    addresses: dict[str, Any]
    _listeners: tuple[socket.socket, ...]

    def lay(self, checkpoint: Path) -> None:
        """Write the addresses beside a policy."""
        (checkpoint / DECOYS_FILE).write_text(json.dumps(self.addresses), encoding="utf-8")

    def taken(self) -> list[str]:
        """Return which of the sockets somebody reached since they were last asked after."""
        return [name for name, item in zip(("tcp", "unix"), self._listeners, strict=True) if _was_reached(item)]


@contextmanager
def decoys_laid(directory: Path, /, **more: Any) -> Iterator[Decoys]:  # noqa: ANN401 - values of JSON
    """Lay out decoys below a directory of the host, and give ``more`` besides or instead."""
    file = directory / "secret.txt"
    file.write_text(secrets.token_hex(16), encoding="utf-8")
    name = f"{MARK}-{secrets.token_hex(4)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + name)
        unix.listen()
        for listener in (tcp, unix):
            listener.settimeout(0)
        port = tcp.getsockname()[1]
        addresses = {
            "file": str(file),
            "directory": str(directory),
            "process": os.getpid(),
            "port": port,
            "socket": name,
            "url": f"http://127.0.0.1:{port}",
            "packs": str(packs_directory()),
            "devices": sorted({Path(module.__file__ or "").stat().st_dev for module in (json, os, np)}),
        }
        yield Decoys({**addresses, **more}, (tcp, unix))


def marks() -> set[str]:
    """Return what attacks left outside of a sandbox: files in the usual places, and System V objects."""
    found = set()
    for place in (*PLACES, str(Path.home())):
        with suppress(OSError):
            found |= {entry.path for entry in os.scandir(place) if entry.name.startswith(MARK)}
    for kind in ("shm", "msg", "sem"):
        with suppress(OSError):
            lines = Path("/proc/sysvipc", kind).read_text(encoding="utf-8").splitlines()[1:]
            found |= {f"System V {kind}" for line in lines if int(line.split()[0]) == SYSTEM_V_KEY}
    return found


SYSTEM_V_KEY = 0x45504741
"""The key of whatever System V object an attack makes."""


def _was_reached(listener: socket.socket) -> bool:
    reached = False
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            reached = True
    return reached


HONEST = "P56"
ENVIRONMENT = "cartpole"
LIMITS = Limits(load_s=2.5, reset_s=1.0, act_s=1.0, episode_s=5.0, memory_mb=1024)
"""Short, so that what is meant to run out of time does; still many times what an honest policy takes."""
SHOWN = 60
"""Characters that are shown of a leak."""


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The result of an attack."""

    status: str
    """Status of its submission."""
    endings: tuple[str, ...]
    """Endings of its episodes: ``ok`` or the reason of a failure."""
    leaks: tuple[str, ...]
    """Leaks that it printed."""
    left: tuple[str, ...]
    """Its leftovers."""
    next_ending: str
    """Ending of the honest policy's episode afterwards."""

    def faults(self, attack: Attack) -> tuple[str, ...]:
        """Return in words what is not as it should be; nothing where the attack was held."""
        ends = sorted(set(self.endings) - attack.endings)
        return (
            *((f"its submission ended with {self.status}",) if self.status != attack.submission else ()),
            *(f"an episode ended with {end}" for end in ends),
            *(leak[:SHOWN] for leak in self.leaks),
            *(f"left behind: {what}" for what in self.left),
            *((f"the next policy ended with {self.next_ending}",) if self.next_ending != OK else ()),
        )


@dataclass(frozen=True, slots=True)
class AttackVerdict:
    """An attack, what came of it, and what follows."""

    attack: Attack
    outcome: AttackOutcome | None
    """None where it was not tried."""
    promised: bool
    """Whether the level promises to hold it."""

    @property
    def faults(self) -> tuple[str, ...]:
        """In words what is not as it should be; nothing where the attack was held, or was not tried."""
        return self.outcome.faults(self.attack) if self.outcome else ()

    @property
    def held(self) -> bool:
        """Whether it came to its safe outcome."""
        return self.outcome is not None and not self.faults

    @property
    def broken(self) -> bool:
        """Whether a promise was."""
        return self.promised and not self.held


def run_attacks(level: str, spec: EnvironmentSpec, which: Sequence[Attack] = ()) -> Iterator[AttackVerdict]:
    """Play the attacks (all, where none is named) against a level; yield what came of each as it ends.

    What a level that guarantees nothing doesn't promise to hold is not tried: nothing would keep it off this machine.
    Raises ``SandboxError`` where the level can't work here at all.
    """
    guarantees = choose(level).backend.guarantees
    with (
        TemporaryDirectory(prefix="evopolicygym-suite-") as place,
        inspection.orphans_adopted(),
        decoys_laid(Path(place)) as decoys,
        LocalExecutor(
            ExecutorConfig(spec, LIMITS, level, Path(place, "workers"), Path(place, "simulators.log"), 1)
        ) as executor,
    ):
        stage = _Stage(executor, spec, decoys, Path(place))
        stage.honest()  # so that all processes are there which are there between policies
        ours = inspection.descendants(os.getpid())
        for item in which or attacks():
            promised = item.guarantees <= guarantees
            outcome = stage.play(item, len(ours)) if promised or guarantees else None
            inspection.end_adopted(ours)
            yield AttackVerdict(item, outcome, promised)


class _Stage:
    """The executor and directories of the suite."""

    def __init__(self, executor: LocalExecutor, spec: EnvironmentSpec, decoys: Decoys, root: Path) -> None:
        self._executor, self._spec, self._decoys, self._root = executor, spec, decoys, root
        self._count = 0

    def play(self, attack: Attack, usual_processes: int) -> AttackOutcome:
        """Play an attack as a submission would be, then an honest policy."""
        status, endings, leaks = self._submit(attack, attack.episodes)
        reached = [f"{LEAK}: reached the {name} socket" for name in self._decoys.taken()]
        left = inspection.left_beyond(usual_processes)
        kept = (*([f"{left} processes"] if left else []), *sorted(marks()))
        return AttackOutcome(status, endings, (*leaks, *reached), kept, self.honest())

    def honest(self) -> str:
        """Play an honest policy; return how its episode ended."""
        status, endings, _ = self._submit(attack(HONEST), 1)
        return endings[0] if endings else status

    def _submit(self, attack: Attack, episodes: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        self._count += 1
        checkpoint = self._root / f"submission-{self._count}"
        checkpoint.mkdir()
        (checkpoint / "policy.py").write_text(attack.source, encoding="utf-8")
        self._decoys.lay(checkpoint)
        grounds = self._executor.grounds
        schemas = grounds.observation_schema, grounds.action_schema
        context = PolicyContext(self._spec.name, self._count, episodes, 0, self._spec.max_steps, *schemas)
        if error := self._executor.load(checkpoint, context):
            return error.status.value, (), ()
        jobs = [
            EpisodeJob(place, place, place, checkpoint.with_suffix(f".{place}"), Recording.OUTPUT)
            for place in range(episodes)
        ]
        played = dict(self._executor.play(checkpoint, context, jobs, lambda _job, _why: None))
        endings = tuple(item.failure.reason.value if item.failure else OK for item in (played[job] for job in jobs))
        leaks = (line for job in jobs for line in _printed(job) if line.startswith(LEAK))
        return SubmissionStatus.OK.value, endings, tuple(dict.fromkeys(leaks))


def _printed(job: EpisodeJob) -> list[str]:
    if job.directory is None:
        return []
    return (job.directory / "stdout.txt").read_text(encoding="utf-8").splitlines()
