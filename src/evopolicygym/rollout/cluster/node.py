"""A node of a cluster: a local executor with one worker, which receives and returns bytes.

A checkpoint comes as bytes and is laid out in this machine's scratch directory; an episode's files go back as bytes.
Anything may carry them, so nothing of a cluster's software is imported. No result depends on what is kept here: when
the machine is lost, its cases are played elsewhere.
"""

import fcntl
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from evopolicygym.core.errors import EvoPolicyGymError, SandboxError
from evopolicygym.core.rollout import Episode, EpisodeJob, ExecutorInfo, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout import cores
from evopolicygym.rollout.cluster.archive import Archive, name_of, pack, unpack
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.rollout.messages import fault_of
from evopolicygym.version import __version__

SCRATCH = "evopolicygym-node-"
"""Prefix of a node's scratch directory."""
LOCK = "lock"
"""Held by the process whose scratch it is, so that scratch of one that was killed is known."""
SWEEP_WAIT_S = 3.0
"""Seconds that a process which is being killed is waited for."""
SAID = 8192
"""The most bytes of what simulators and sandboxes print that go home with one reply."""


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node's description of itself."""

    grounds: ExecutorInfo
    version: str
    """Version of this package."""
    process: int
    core: int | None
    """The processor that its worker and policies are pinned to."""


@dataclass(frozen=True, slots=True)
class NodeReply:
    """A node's reply."""

    answer: NodeDescription | Episode | LoadError | Trial | None = None
    files: Archive = field(default_factory=dict)
    """Files of an episode, if its job requests them."""
    repeated: Sequence[str] = ()
    """Why the case was played again."""
    error: EvoPolicyGymError | None = None
    """The error raised instead of an answer."""
    said: bytes = b""
    """Output of simulators and sandboxes, cut at a limit."""


class Node:
    """Plays one episode at a time on this machine."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        limits: Limits,
        isolation: str,
        token: str = "",
        *,
        pinned: bool = True,
        policy_packages: tuple[str, ...] = (),
    ) -> None:
        """Take in what is to be played; ``token`` stands in the name of its scratch, so that it can be found."""
        self._token = token
        self._task = spec, limits, isolation
        self._pinned, self._policy_packages = pinned, policy_packages
        self._claim = cores.Claim(None)
        self._executor: LocalExecutor | None = None
        self._scratch = Path()
        self._log_read = 0

    def open(self) -> NodeReply:
        """Start the worker; answer what was found here."""
        sweep()
        self._scratch, self._claim = _scratch(self._token), cores.claim()
        repeated: list[str] = []
        with self._replying(repeated) as replies:
            log = self._scratch / "simulators.log"
            config = ExecutorConfig(
                *(*self._task, self._scratch / "workers", log, 1),
                pinned=self._pinned,
                policy_packages=self._policy_packages,
            )
            self._executor = LocalExecutor(config, [self._claim.core])
            grounds = self._executor.grounds
            here = NodeDescription(grounds, __version__, os.getpid(), self._claim.core)
            replies.append(NodeReply(here, said=self._said()))
        return replies[0]

    def take(self, name: str, checkpoint: Archive) -> None:
        """Lay out a checkpoint in place of the one before, if it is what its name says."""
        came = name_of(checkpoint)
        if came != name:
            raise SandboxError(f"Checkpoint {name[:16]} came to {platform.node()} as {came[:16]}.")
        shutil.rmtree(self._scratch / "checkpoints", ignore_errors=True)
        unpack(checkpoint, self._checkpoint(name))

    def load(self, name: str, context: PolicyContext) -> NodeReply:
        """Construct the policy once; answer why it can't be, or None."""
        with self._replying([]) as replies:
            replies.append(NodeReply(self._ready().load(self._checkpoint(name), context), said=self._said()))
        return replies[0]

    def check(self, name: str, context: PolicyContext) -> NodeReply:
        """Construct the policy once and have it act once; answer what came of it."""
        with self._replying([]) as replies:
            replies.append(NodeReply(self._ready().check(self._checkpoint(name), context), said=self._said()))
        return replies[0]

    def play(self, name: str, context: PolicyContext, job: EpisodeJob) -> NodeReply:
        """Play one case; its job's directory only says whether files are wanted."""
        directory = self._scratch / "episode"
        repeated: list[str] = []
        with self._replying(repeated) as replies:
            here = replace(job, directory=directory if job.directory else None)
            played = self._ready().play(self._checkpoint(name), context, [here], lambda _job, why: repeated.append(why))
            episode = dict(played)[here]
            replies.append(NodeReply(episode, pack(directory) if job.directory else {}, repeated, said=self._said()))
        return replies[0]

    def close(self) -> None:
        """Stop the worker and leave nothing behind."""
        if self._executor:
            self._executor.close()
        self._claim.release()
        if self._scratch != Path():
            shutil.rmtree(self._scratch, ignore_errors=True)

    @contextmanager
    def _replying(self, repeated: list[str]) -> Iterator[list[NodeReply]]:
        """Send what is raised in place of the answer."""
        replies: list[NodeReply] = []
        try:
            yield replies
        except EvoPolicyGymError as error:
            replies.append(NodeReply(repeated=repeated, error=error, said=self._said()))
        except OSError as error:
            replies.append(NodeReply(repeated=repeated, error=fault_of(error).error(), said=self._said()))

    def _ready(self) -> LocalExecutor:
        if self._executor is None:
            raise SandboxError("A node was asked to play before it was opened.")
        return self._executor

    def _checkpoint(self, name: str) -> Path:
        return self._scratch / "checkpoints" / name

    def _said(self) -> bytes:
        log = self._scratch / "simulators.log"
        if not log.exists():
            return b""
        with log.open("rb") as file:
            file.seek(self._log_read)
            said = file.read(SAID)
            self._log_read = file.seek(0, os.SEEK_END)
        return said


def sweep(killed: Sequence[str] = ()) -> None:
    """Remove scratch of processes that are gone; those that are being ``killed``, by token, are waited for."""
    until = time.monotonic() + SWEEP_WAIT_S
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH}{os.getuid()}-*"):
        while not _swept(path) and path.name.split("-")[3] in killed and time.monotonic() < until:
            time.sleep(0.05)


def _swept(path: Path) -> bool:
    with suppress(OSError), (path / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


_held: list[int] = []
"""Locks of this process; they end with it."""


def _scratch(token: str = "") -> Path:
    """Make a directory of this process's own; it is locked before it has its name, so that nobody sweeps it."""
    beside = Path(tempfile.mkdtemp(prefix=f".{SCRATCH}"))
    lock = os.open(beside / LOCK, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _held.append(lock)
    path = beside.with_name(f"{SCRATCH}{os.getuid()}-{token}-{beside.name[len(SCRATCH) + 1 :]}")
    beside.rename(path)
    return path
