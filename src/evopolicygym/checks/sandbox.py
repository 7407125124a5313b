"""The check of a sandbox: hostile policies attack an isolation backend, whose guarantees must hold.

Attacks play on cartpole, one after another, each followed by an honest policy, whose play must not be affected. Decoys
stand for secrets that an attack must not find. No judge takes part: there is no budget and no hidden case.
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
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.rollout import EpisodeJob, Recording, Rollout
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.packs.installation import packs_directory
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose
from evopolicygym.specs import catalog

HONEST = "P56"
ENVIRONMENT = "cartpole"
LIMITS = Limits(load_s=2.5, reset_s=1.0, act_s=1.0, episode_s=5.0, memory_mb=1024)
"""Short, so that endless policies reach them soon; still many times what an honest policy takes."""
LEAK_CHARACTERS = 60
"""Longest leak in a finding."""
MAX_FAULTS = 3
"""Most faults in a finding."""
DECOYS_FILE = "decoys.json"
LEAK = "LEAK"
"""Begins each line in which an attack reports that it got through."""
OK = "ok"
DEFAULT_EPISODES = 3
MARK = "evopolicygym-attack"
"""Begins the names of the files and sockets that attacks create."""
SYSTEM_V_KEY = 0x45504741
"""Key of the System V objects that attacks create."""
MARK_DIRECTORIES = ("/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock")  # noqa: S108 - only listed
"""Directories in which attacks try to leave files, besides their own and the user's home."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile policy and its safe outcome."""

    id: str
    name: str
    """A description."""
    source: str
    submission: str
    """Status of its submission."""
    endings: frozenset[str]
    """Allowed endings of its episodes: ``ok`` or the reason of a failure."""
    guarantees: frozenset[Guarantee]
    """Guarantees that stop it; empty if every backend does."""
    episodes: int
    """Number of episodes to play."""


@cache
def attacks() -> tuple[Attack, ...]:
    """Return all attacks in the order of their ids."""
    folder = files("evopolicygym.checks") / "attacks"
    programs = sorted((file for file in folder.iterdir() if file.name.endswith(".py")), key=lambda file: file.name)
    return tuple(parse_attack(file.read_text(encoding="utf-8")) for file in programs)


def attack(identity: str) -> Attack:
    """Return the attack with an id."""
    return next(item for item in attacks() if item.id == identity)


def parse_attack(source: str) -> Attack:
    """Return the attack that a policy's docstring declares; the source is parsed, not run."""
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
        int(fields.get("played", DEFAULT_EPISODES)),
    )


@dataclass(frozen=True, slots=True)
class Decoys:
    """Addresses that attacks are given, and the sockets behind two of them."""

    addresses: dict[str, Any]
    _listeners: tuple[socket.socket, ...]

    def write_addresses(self, checkpoint: Path) -> None:
        """Write the addresses into a policy's directory."""
        (checkpoint / DECOYS_FILE).write_text(json.dumps(self.addresses), encoding="utf-8")

    def reached_sockets(self) -> list[str]:
        """Return the names of the sockets that were reached since the last call."""
        return [name for name, item in zip(("tcp", "unix"), self._listeners, strict=True) if _was_reached(item)]


@contextmanager
def plant_decoys(directory: Path, /, **more: Any) -> Iterator[Decoys]:  # noqa: ANN401 - values of JSON
    """Create decoys in a directory of the host; ``more`` adds or replaces addresses."""
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


def find_marks() -> set[str]:
    """Return the files and System V objects that attacks left outside of a sandbox."""
    marks = set()
    for directory in (*MARK_DIRECTORIES, str(Path.home())):
        with suppress(OSError):
            marks |= {entry.path for entry in os.scandir(directory) if entry.name.startswith(MARK)}
    for kind in ("shm", "msg", "sem"):
        with suppress(OSError):
            lines = Path("/proc/sysvipc", kind).read_text(encoding="utf-8").splitlines()[1:]
            marks |= {f"System V {kind}" for line in lines if int(line.split()[0]) == SYSTEM_V_KEY}
    return marks


def _was_reached(listener: socket.socket) -> bool:
    reached = False
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            reached = True
    return reached


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The result of an attack."""

    status: str
    """Status of its submission."""
    endings: tuple[str, ...]
    """Endings of its episodes: ``ok`` or the reason of a failure."""
    leaks: tuple[str, ...]
    """Lines in which it reported a leak."""
    leftovers: tuple[str, ...]
    next_ending: str
    """Ending of the honest policy's episode afterwards."""

    def faults(self, attack: Attack) -> tuple[str, ...]:
        """Return descriptions of all differences from the attack's safe outcome."""
        endings = sorted(set(self.endings) - attack.endings)
        return (
            *((f"its submission ended with {self.status}",) if self.status != attack.submission else ()),
            *(f"an episode ended with {ending}" for ending in endings),
            *(leak[:LEAK_CHARACTERS] for leak in self.leaks),
            *(f"left behind: {leftover}" for leftover in self.leftovers),
            *((f"the next policy ended with {self.next_ending}",) if self.next_ending != OK else ()),
        )


@dataclass(frozen=True, slots=True)
class AttackVerdict:
    """An attack, its outcome, and whether the backend keeps its guarantees."""

    attack: Attack
    outcome: AttackOutcome | None
    """None if it was not tried."""
    promised: bool
    """Whether the backend guarantees to stop it."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Differences from the safe outcome; empty if the attack was not tried."""
        return self.outcome.faults(self.attack) if self.outcome else ()

    @property
    def is_safe(self) -> bool:
        """Whether the attack had its safe outcome."""
        return self.outcome is not None and not self.faults

    @property
    def broken(self) -> bool:
        """Whether a guarantee was broken."""
        return self.promised and not self.is_safe


def run_attacks(level: str, spec: EnvironmentSpec, chosen: Sequence[Attack] = ()) -> Iterator[AttackVerdict]:
    """Play attacks (default: all) against a backend; yield each verdict as the attack ends.

    Against a backend without any guarantee no attack is tried that it doesn't promise to stop. Raises ``SandboxError``
    if the backend doesn't work here.
    """
    guarantees = choose(level).backend.guarantees
    with (
        TemporaryDirectory(prefix="evopolicygym-suite-") as directory,
        inspection.orphans_adopted(),
        plant_decoys(Path(directory)) as decoys,
        LocalExecutor(
            ExecutorConfig(spec, LIMITS, level, Path(directory, "workers"), Path(directory, "simulators.log"), 1)
        ) as executor,
    ):
        player = _AttackPlayer(executor, spec, decoys, Path(directory))
        player.play_honest()  # starts all processes that live between policies
        own_processes = inspection.descendants(os.getpid())
        for item in chosen or attacks():
            promised = item.guarantees <= guarantees
            outcome = player.play(item, len(own_processes)) if promised or guarantees else None
            inspection.end_adopted(own_processes)
            yield AttackVerdict(item, outcome, promised)


class _AttackPlayer:
    """Plays policies on one executor, with decoys."""

    def __init__(self, executor: LocalExecutor, spec: EnvironmentSpec, decoys: Decoys, root: Path) -> None:
        self._executor, self._spec, self._decoys, self._root = executor, spec, decoys, root
        self._count = 0

    def play(self, attack: Attack, usual_processes: int) -> AttackOutcome:
        """Play an attack like a submission, then an honest policy."""
        status, endings, leaks = self._submit(attack, attack.episodes)
        reached = [f"{LEAK}: reached the {name} socket" for name in self._decoys.reached_sockets()]
        count = inspection.left_beyond(usual_processes)
        leftovers = (*([f"{count} processes"] if count else []), *sorted(find_marks()))
        return AttackOutcome(status, endings, (*leaks, *reached), leftovers, self.play_honest())

    def play_honest(self) -> str:
        """Play an honest policy; return how its episode ended."""
        status, endings, _ = self._submit(attack(HONEST), 1)
        return endings[0] if endings else status

    def _submit(self, attack: Attack, episodes: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        self._count += 1
        checkpoint = self._root / f"submission-{self._count}"
        checkpoint.mkdir()
        (checkpoint / "policy.py").write_text(attack.source, encoding="utf-8")
        self._decoys.write_addresses(checkpoint)
        info = self._executor.info
        schemas = info.observation_schema, info.action_schema
        context = PolicyContext(self._spec.name, self._count, episodes, 0, self._spec.max_steps, *schemas)
        if error := self._executor.load(checkpoint, context):
            return error.status.value, (), ()
        jobs = [
            EpisodeJob(index, index, index, checkpoint.with_suffix(f".{index}"), Recording.OUTPUT)
            for index in range(episodes)
        ]
        rollout = Rollout(checkpoint, context, jobs)
        played = {job: episode for _, job, episode in self._executor.play([rollout], lambda *_: None)}
        endings = tuple(item.failure.reason.value if item.failure else OK for item in (played[job] for job in jobs))
        leaks = (line for job in jobs for line in _output_lines(job) if line.startswith(LEAK))
        return SubmissionStatus.OK.value, endings, tuple(dict.fromkeys(leaks))


def _output_lines(job: EpisodeJob) -> list[str]:
    if job.directory is None:
        return []
    return (job.directory / "stdout.txt").read_text(encoding="utf-8").splitlines()


def check(name: str, attacks: Sequence[Attack] = ()) -> Iterator[CheckResult]:
    """Play attacks (default: all) against the backend with a name; yield a finding as each ends.

    Raises ``SandboxError`` if the backend doesn't work here.
    """
    for verdict in run_attacks(name, catalog.load(ENVIRONMENT), attacks):
        yield CheckResult(
            verdict.attack.id,
            ok=not verdict.broken,
            detail=_describe(verdict),
            title=verdict.attack.name,
            verdict=_word(verdict),
            promised=verdict.promised,
            more={"attack": verdict.attack.name, "promised": verdict.promised, "held": verdict.is_safe},
        )


def _word(verdict: AttackVerdict) -> str:
    if verdict.broken:
        return "NOT HELD"
    if verdict.promised:
        return "held"
    return "not promised" if verdict.outcome else "not tried"


def _describe(verdict: AttackVerdict) -> str:
    """Return the faults of an attack, or else how its episodes ended."""
    outcome, faults = verdict.outcome, verdict.faults
    if outcome is None:
        return "nothing would protect this machine from it"
    if len(faults) > MAX_FAULTS:
        faults = (*faults[:MAX_FAULTS], f"and {len(faults) - MAX_FAULTS} more")
    endings = [f"{outcome.endings.count(ending)} {ending}" for ending in dict.fromkeys(outcome.endings)]
    return "; ".join(faults) or ", ".join(endings) or outcome.status
