"""A search for channels across runs and roles: what a hidden policy or an agent's program does, others must not find.

A sender plays in one run and a reader in another, each a policy or a program; or the reader is whoever is outside. The
carriers are what files of the machine keep beside their contents: which pages are in memory, watches, locks, leases,
times, numbers. Random bits are sent by one file each (``carry.py``); a silent run, in which nothing is sent, says how
well they are guessed. How processor caches and load carry bits is not looked at.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from math import log2
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic

from evopolicygym.checks.channel_search import carry
from evopolicygym.core.agent import SYSTEM, AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import EpisodeJob, Recording
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.base import Program, RunningProgram
from evopolicygym.sandbox.levels import program_sandbox

BITS = 64
FOUND = 0.85
"""The part of the bits that is read right, by the best of all thresholds, from which a carrier counts as a channel."""
LIMITS = Limits(load_s=60.0, reset_s=60.0, act_s=60.0, episode_s=120.0, memory_mb=1024)
POLICY, PROGRAM, OUTSIDE = "policy", "program", "outside"
WAYS = (
    ("pages, timed", POLICY, PROGRAM), ("pages, timed", POLICY, POLICY), ("pages, asked", POLICY, PROGRAM),
    ("watches", POLICY, PROGRAM), ("watches", PROGRAM, PROGRAM), ("locks", PROGRAM, PROGRAM),
    ("locks", PROGRAM, OUTSIDE), ("leases", PROGRAM, OUTSIDE), ("times", POLICY, PROGRAM), ("times", PROGRAM, PROGRAM),
    ("numbers", PROGRAM, PROGRAM),
)  # fmt: skip
"""Each carrier, who sends by it, and who reads."""
PLAYS = """
import json, carry
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        with open("plan.json") as file:
            plan = json.load(file)
        if plan["bits"] is None:
            print(json.dumps(carry.read(plan["carrier"], plan["count"])))
        else:
            carry.send(plan["carrier"], plan["bits"])
    def reset(self, episode_index):
        pass
    def act(self, obs):
        return 0
"""
RUNS = """
import json, os, sys, time
import carry
plan = json.loads(sys.argv[1])
kept = carry.send(plan["carrier"], plan["bits"]) if plan["bits"] is not None else carry.watch(plan["count"])
open("system/ready", "w").close()
while not os.path.exists("system/go"):
    time.sleep(0.01)
if plan["bits"] is None:
    print(json.dumps(carry.read(plan["carrier"], plan["count"], kept)), flush=True)
"""
GRACE_S = 0.0


@dataclass(frozen=True, slots=True)
class Carried:
    """How well one carrier carried bits from a sender to a reader of another run."""

    carrier: str
    sender: str
    reader: str
    read_right: float
    """The part of the bits that was read right, by the best threshold."""
    guessed_right: float
    """The same where nothing was sent: what the best threshold makes of noise."""
    seconds: float

    @property
    def is_channel(self) -> bool:
        """Whether it carries bits."""
        return self.read_right >= FOUND and self.read_right > self.guessed_right

    @property
    def bits_a_second(self) -> float:
        """What it carries beyond noise, at this error rate."""
        gained = _capacity(self.read_right) - _capacity(self.guessed_right)
        return BITS * max(0.0, gained) / self.seconds


def search_across(
    level: str,
    spec: EnvironmentSpec,
    ways: Sequence[tuple[str, str, str]] = WAYS,
    progress: Callable[[str], None] = lambda _what: None,
) -> Iterator[Carried]:
    """Try each way to carry bits from one run to another; ``progress`` hears of each.

    Raises ``SandboxError`` where the level can't work here, or has no place for programs.
    """
    bits = Random(7).choices((0, 1), k=BITS)  # noqa: S311 - any will do
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="evopolicygym-across-")))
        played = {place: stack.enter_context(_Policies.opened(level, spec, root / place)) for place in ("one", "two")}
        for carrier, sender, reader in ways:
            progress(f"{carrier}, from a {sender} to a {reader}" if reader != OUTSIDE else f"{carrier}, to the outside")
            way = _Way(level, root, played["one"], played["two"], carrier, sender, reader)
            noise, _ = way.carried([0] * BITS)
            signal, seconds = way.carried(bits)
            yield Carried(carrier, sender, reader, _right(signal, bits), _right(noise, bits), seconds)


@dataclass(slots=True)
class _Policies:
    """Where policies of one run play."""

    spec: EnvironmentSpec
    root: Path
    executor: LocalExecutor
    _count: int = 0

    @classmethod
    @contextmanager
    def opened(cls, level: str, spec: EnvironmentSpec, root: Path) -> "Iterator[_Policies]":
        root.mkdir()
        config = ExecutorConfig(spec, LIMITS, level, root / "workers", root / "simulators.log", 1)
        with LocalExecutor(config) as executor:
            yield cls(spec, root, executor)

    def play(self, carrier: str, bits: Sequence[int] | None) -> list[int]:
        """Play one policy that sends bits, or reads them where there are none; return what it read."""
        self._count += 1
        checkpoint = self.root / f"checkpoint-{self._count}"
        checkpoint.mkdir()
        (checkpoint / "policy.py").write_text(PLAYS, encoding="utf-8")
        (checkpoint / "carry.py").write_text(_script(), encoding="utf-8")
        plan = {"carrier": carrier, "bits": bits, "count": BITS}
        (checkpoint / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        grounds, directory = self.executor.grounds, self.root / f"episode-{self._count}"
        schemas = grounds.observation_schema, grounds.action_schema
        context = PolicyContext(self.spec.name, 0, 1, 0, self.spec.max_steps, *schemas)
        job = EpisodeJob(0, 0, 0, directory, Recording.OUTPUT)
        [(_, episode)] = self.executor.play(checkpoint, context, [job], lambda _job, _why: None)
        if episode.failure:
            raise SandboxError(f"A policy of the search for channels failed: {episode.failure.message}")
        printed = (directory / "stdout.txt").read_text(encoding="utf-8")
        return list(json.loads(printed)) if printed else []


@dataclass(slots=True)
class _Way:
    """One carrier between two runs."""

    level: str
    root: Path
    senders: _Policies
    readers: _Policies
    carrier: str
    sender: str
    reader: str

    def carried(self, bits: Sequence[int]) -> tuple[list[int], float]:
        """Send bits and return what was read, as changes since before, and how long both took."""
        for path in carry.files(BITS):  # as if nobody had read them for long
            with Path(path).open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = self._read_at_once() if self.carrier in {"times", "numbers"} else [0] * BITS
        began = monotonic()
        with ExitStack() as stack:
            watcher = stack.enter_context(self._program(None)) if self.carrier == "watches" else None
            if self.sender == POLICY:
                self.senders.play(self.carrier, bits)
            else:
                stack.enter_context(self._program(bits))
            found = watcher.result() if watcher else self._read_at_once()
        return [now - then for now, then in zip(found, before, strict=True)], monotonic() - began

    def _read_at_once(self) -> list[int]:
        if self.reader == POLICY:
            return self.readers.play(self.carrier, None)
        if self.reader == OUTSIDE:
            return list(carry.read(self.carrier, BITS))
        with self._program(None) as program:
            return program.result()

    @contextmanager
    def _program(self, bits: Sequence[int] | None) -> "Iterator[_Program]":
        with TemporaryDirectory(prefix="workspace-", dir=self.root) as place:
            workspace = Path(place, "workspace")
            (workspace / SYSTEM).mkdir(parents=True)
            (workspace / "carry.py").write_text(_script(), encoding="utf-8")
            plan = json.dumps({"carrier": self.carrier, "bits": bits, "count": BITS})
            script = "import sys\nsys.path.insert(0, '/workspace')\n" + RUNS
            sandbox = program_sandbox(self.level)
            command = (sandbox.python, "-B", "-c", script, plan)
            running = sandbox.start(Program(command, workspace, AgentLimits()), {})
            try:
                program = _Program(running, workspace / SYSTEM)
                program.wait()
                yield program
            finally:
                running.terminate(GRACE_S)
                if running.process.stdout is not None:
                    running.process.stdout.close()


@dataclass(frozen=True, slots=True)
class _Program:
    """A program that sends or reads."""

    running: RunningProgram
    system: Path

    def wait(self) -> None:
        """Wait until it has sent, or watches."""
        while not (self.system / "ready").exists():
            if self.running.process.poll() is not None:
                raise SandboxError("A program of the search for channels ended before its time.")

    def result(self) -> list[int]:
        """Have it read; return what it read."""
        (self.system / "go").touch()
        assert self.running.process.stdout is not None  # noqa: S101 - the contract's
        return list(json.loads(self.running.process.stdout.readline()))


def _script() -> str:
    return (files("evopolicygym.checks.channel_search") / "carry.py").read_text(encoding="utf-8")


def _right(values: Sequence[int], bits: Sequence[int]) -> float:
    """Return the part of bits that the best threshold reads right, the majority's guess at least."""
    thresholds = {*values, max(values) + 1}
    pairs = list(zip(values, bits, strict=True))
    right = (sum((value >= one) == (bit == 1) for value, bit in pairs) for one in thresholds)
    return max(right) / len(bits)


def _capacity(right: float) -> float:
    """Return the bits that a bit carries that is read right so often."""
    wrong = 1.0 - max(right, 0.5)
    return 1.0 if wrong == 0.0 else 1.0 + wrong * log2(wrong) + (1.0 - wrong) * log2(1.0 - wrong)
