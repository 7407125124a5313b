"""A search for channels between runs: what a hidden policy or an agent's program does, others must not notice.

Sender and reader are each a policy or a program of different runs; the reader may also be a process outside. Carriers
are states of the machine's files besides their contents: pages in memory, watches, locks, leases, times, numbers, and
names that were looked up. Each file carries a random bit (``carry.py``). A trial in which only zeros are sent measures
noise. Processor caches and load are not tried.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import log2
from pathlib import Path
from random import Random
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import monotonic

from channel_search import carry
from evopolicygym.core.agent import SYSTEM, AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import EpisodeJob, Recording, Rollout
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.base import Program, RunningProgram
from evopolicygym.sandbox.levels import program_sandbox

BITS = 64
CHANNEL_ACCURACY = 0.85
"""Accuracy with the best threshold from which a carrier counts as a channel."""
LIMITS = Limits(load_s=60.0, reset_s=60.0, act_s=60.0, episode_s=120.0, memory_mb=1024)
POLICY, PROGRAM, OUTSIDE = "policy", "program", "outside"
WAYS = (
    ("pages, timed", POLICY, PROGRAM), ("pages, timed", POLICY, POLICY), ("pages, asked", POLICY, PROGRAM),
    ("watches", POLICY, PROGRAM), ("watches", PROGRAM, PROGRAM), ("locks", PROGRAM, PROGRAM),
    ("locks", PROGRAM, OUTSIDE), ("leases", PROGRAM, OUTSIDE), ("times", POLICY, PROGRAM), ("times", PROGRAM, PROGRAM),
    ("numbers", PROGRAM, PROGRAM), ("names", POLICY, POLICY), ("names", POLICY, PROGRAM),
)  # fmt: skip
"""Carrier, sender and reader of each trial."""
POLICY_SOURCE = """
import json, carry
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        with open("plan.json") as file:
            plan = json.load(file)
        if plan["bits"] is None:
            print(json.dumps(carry.read(plan["carrier"], plan["count"], trial=plan["trial"])))
        else:
            carry.send(plan["carrier"], plan["bits"], plan["trial"])
    def reset(self, episode_index):
        pass
    def act(self, obs):
        return 0
"""
PROGRAM_SOURCE = """
import json, os, sys, time
import carry
plan = json.loads(sys.argv[1])
send = plan["bits"] is not None
kept = carry.send(plan["carrier"], plan["bits"], plan["trial"]) if send else carry.watch(plan["count"])
open("system/ready", "w").close()
while not os.path.exists("system/go"):
    time.sleep(0.01)
if not send:
    print(json.dumps(carry.read(plan["carrier"], plan["count"], kept, plan["trial"])), flush=True)
"""
GRACE_S = 0.0


@dataclass(frozen=True, slots=True)
class CarrierTrial:
    """How well a carrier transmitted bits between two runs."""

    carrier: str
    sender: str
    reader: str
    accuracy: float
    """Share of the bits that was read right, with the best threshold."""
    noise_accuracy: float
    """The same when nothing was sent."""
    seconds: float

    @property
    def is_channel(self) -> bool:
        """Whether it carries bits."""
        return self.accuracy >= CHANNEL_ACCURACY and self.accuracy > self.noise_accuracy

    @property
    def bits_per_second(self) -> float:
        """Its capacity beyond noise."""
        gain = _capacity(self.accuracy) - _capacity(self.noise_accuracy)
        return BITS * max(0.0, gain) / self.seconds


def search_across(
    level: str,
    spec: EnvironmentSpec,
    ways: Sequence[tuple[str, str, str]] = WAYS,
    progress: Callable[[str], None] = lambda _what: None,
) -> Iterator[CarrierTrial]:
    """Try to send bits from one run to another, by each of ``ways``; ``progress`` is called before each.

    Raises ``SandboxError`` if the backend doesn't work here or has no sandbox for programs.
    """
    bits = Random(7).choices((0, 1), k=BITS)  # noqa: S311 - no secret
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="evopolicygym-across-")))
        senders = stack.enter_context(_PolicyPlayer.open(level, spec, root / "senders"))
        readers = stack.enter_context(_PolicyPlayer.open(level, spec, root / "readers"))
        for carrier, sender, reader in ways:
            progress(f"{carrier}, from a {sender} to a {reader}" if reader != OUTSIDE else f"{carrier}, to the outside")
            link = _Link(level, root, senders, readers, carrier, sender, reader)
            noise, _ = link.transmit([0] * BITS)
            signal, seconds = link.transmit(bits)
            yield CarrierTrial(carrier, sender, reader, _accuracy(signal, bits), _accuracy(noise, bits), seconds)


@dataclass(slots=True)
class _PolicyPlayer:
    """Plays policies of one run."""

    spec: EnvironmentSpec
    root: Path
    executor: LocalExecutor
    _count: int = 0

    @classmethod
    @contextmanager
    def open(cls, level: str, spec: EnvironmentSpec, root: Path) -> "Iterator[_PolicyPlayer]":
        root.mkdir()
        config = ExecutorConfig(spec, LIMITS, level, root / "workers", root / "simulators.log", 1)
        with LocalExecutor(config) as executor:
            yield cls(spec, root, executor)

    def play(self, carrier: str, bits: Sequence[int] | None, trial: str) -> list[int]:
        """Play a policy that sends ``bits``, or reads if they are None; return what it read."""
        self._count += 1
        checkpoint = self.root / f"checkpoint-{self._count}"
        checkpoint.mkdir()
        (checkpoint / "policy.py").write_text(POLICY_SOURCE, encoding="utf-8")
        (checkpoint / "carry.py").write_text(_script(), encoding="utf-8")
        plan = {"carrier": carrier, "bits": bits, "count": BITS, "trial": trial}
        (checkpoint / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        info, directory = self.executor.info, self.root / f"episode-{self._count}"
        schemas = info.observation_schema, info.action_schema
        context = PolicyContext(self.spec.name, 0, 1, 0, self.spec.max_steps, *schemas)
        job = EpisodeJob(0, 0, 0, directory, Recording.OUTPUT)
        [(_, _, episode)] = self.executor.play([Rollout(checkpoint, context, [job])], lambda *_: None)
        if episode.failure:
            raise SandboxError(f"A policy of the search for channels failed: {episode.failure.message}")
        output = (directory / "stdout.txt").read_text(encoding="utf-8")
        return list(json.loads(output)) if output else []


@dataclass(slots=True)
class _Link:
    """A carrier between two runs."""

    level: str
    root: Path
    senders: _PolicyPlayer
    readers: _PolicyPlayer
    carrier: str
    sender: str
    reader: str
    _trial: str = ""
    """Part of the names that are looked up, new in each trial."""

    def transmit(self, bits: Sequence[int]) -> tuple[list[int], float]:
        """Send bits; return how each value that was read changed, and the time that it took in seconds."""
        for path in carry.files(BITS):
            with Path(path).open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # drops their pages from memory
        self._trial = token_hex(4)
        before = self._read() if self.carrier in {"times", "numbers"} else [0] * BITS
        start = monotonic()
        with ExitStack() as stack:
            watcher = stack.enter_context(self._program(None)) if self.carrier == "watches" else None
            if self.sender == POLICY:
                self.senders.play(self.carrier, bits, self._trial)
            else:
                stack.enter_context(self._program(bits))
            values = watcher.result() if watcher else self._read()
        return [now - then for now, then in zip(values, before, strict=True)], monotonic() - start

    def _read(self) -> list[int]:
        if self.reader == POLICY:
            return self.readers.play(self.carrier, None, self._trial)
        if self.reader == OUTSIDE:
            return list(carry.read(self.carrier, BITS))
        with self._program(None) as program:
            return program.result()

    @contextmanager
    def _program(self, bits: Sequence[int] | None) -> "Iterator[_Program]":
        with TemporaryDirectory(prefix="workspace-", dir=self.root) as directory:
            workspace = Path(directory, "workspace")
            (workspace / SYSTEM).mkdir(parents=True)
            (workspace / "carry.py").write_text(_script(), encoding="utf-8")
            plan = json.dumps({"carrier": self.carrier, "bits": bits, "count": BITS, "trial": self._trial})
            script = "import sys\nsys.path.insert(0, '/workspace')\n" + PROGRAM_SOURCE
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
        """Wait until it has sent its bits or watches files."""
        while not (self.system / "ready").exists():
            if self.running.process.poll() is not None:
                raise SandboxError("A program of the search for channels ended too early.")

    def result(self) -> list[int]:
        """Have it read; return what it read."""
        (self.system / "go").touch()
        assert self.running.process.stdout is not None  # noqa: S101 - for the type
        return list(json.loads(self.running.process.stdout.readline()))


def _script() -> str:
    return Path(__file__).with_name("carry.py").read_text(encoding="utf-8")


def _accuracy(values: Sequence[int], bits: Sequence[int]) -> float:
    """Return the share of bits that the best threshold reads right; a constant guess is one of them."""
    thresholds = {*values, max(values) + 1}
    pairs = list(zip(values, bits, strict=True))
    right = (sum((value >= threshold) == (bit == 1) for value, bit in pairs) for threshold in thresholds)
    return max(right) / len(bits)


def _capacity(accuracy: float) -> float:
    """Return the capacity in bits of a binary symmetric channel."""
    wrong = 1.0 - max(accuracy, 0.5)
    return 1.0 if wrong == 0.0 else 1.0 + wrong * log2(wrong) + (1.0 - wrong) * log2(1.0 - wrong)
