"""A cluster node: a local executor with one worker, which receives and returns bytes.

A checkpoint arrives as bytes and is unpacked in a scratch directory; an episode's files are returned as bytes. This
module imports no cluster software. No result depends on what a node stores: if it is lost, its cases are played on
another.
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
from evopolicygym.core.interface import InterfaceDraw
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
"""Name of the file that the directory's owner locks, so that scratch of killed processes can be recognised."""
SWEEP_WAIT_S = 3.0
"""Seconds to wait for a process that is being killed."""
OUTPUT_LIMIT = 8192
"""Most bytes of simulator and sandbox output in one reply."""


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
        interface: InterfaceDraw | None = None,
    ) -> None:
        """Store the task; ``token`` becomes part of the scratch directory's name."""
        self._token = token
        self._task = spec, limits, isolation
        self._pinned, self._policy_packages, self._interface = pinned, policy_packages, interface
        self._claim = cores.Claim(None)
        self._executor: LocalExecutor | None = None
        self._scratch = Path()
        self._log_read = 0

    def open(self) -> NodeReply:
        """Start the worker; return this machine's description."""
        sweep()
        self._scratch, self._claim = _scratch(self._token), cores.claim()
        repeated: list[str] = []
        with self._replying(repeated) as replies:
            log = self._scratch / "simulators.log"
            config = ExecutorConfig(
                *(*self._task, self._scratch / "workers", log, 1),
                pinned=self._pinned,
                policy_packages=self._policy_packages,
                interface=self._interface,
            )
            self._executor = LocalExecutor(config, [self._claim.core])
            grounds = self._executor.grounds
            here = NodeDescription(grounds, __version__, os.getpid(), self._claim.core)
            replies.append(NodeReply(here, said=self._new_output()))
        return replies[0]

    def take(self, name: str, checkpoint: Archive) -> None:
        """Replace the checkpoint; raise ``SandboxError`` if its content doesn't match its name."""
        came = name_of(checkpoint)
        if came != name:
            raise SandboxError(f"Checkpoint {name[:16]} came to {platform.node()} as {came[:16]}.")
        shutil.rmtree(self._scratch / "checkpoints", ignore_errors=True)
        unpack(checkpoint, self._checkpoint(name))

    def load(self, name: str, context: PolicyContext) -> NodeReply:
        """Construct the policy once; return why it can't be constructed, or None."""
        with self._replying([]) as replies:
            replies.append(
                NodeReply(self._open_executor().load(self._checkpoint(name), context), said=self._new_output())
            )
        return replies[0]

    def check(self, name: str, context: PolicyContext) -> NodeReply:
        """Construct the policy once and have it act once; return the trial."""
        with self._replying([]) as replies:
            replies.append(
                NodeReply(self._open_executor().check(self._checkpoint(name), context), said=self._new_output())
            )
        return replies[0]

    def play(self, name: str, context: PolicyContext, job: EpisodeJob) -> NodeReply:
        """Play one case; the job's directory only says whether files are requested."""
        directory = self._scratch / "episode"
        repeated: list[str] = []
        with self._replying(repeated) as replies:
            here = replace(job, directory=directory if job.directory else None)
            played = self._open_executor().play(
                self._checkpoint(name), context, [here], lambda _job, why: repeated.append(why)
            )
            episode = dict(played)[here]
            replies.append(
                NodeReply(episode, pack(directory) if job.directory else {}, repeated, said=self._new_output())
            )
        return replies[0]

    def close(self) -> None:
        """Stop the worker and remove the scratch directory."""
        if self._executor:
            self._executor.close()
        self._claim.release()
        if self._scratch != Path():
            shutil.rmtree(self._scratch, ignore_errors=True)

    @contextmanager
    def _replying(self, repeated: list[str]) -> Iterator[list[NodeReply]]:
        """Return errors as replies."""
        replies: list[NodeReply] = []
        try:
            yield replies
        except EvoPolicyGymError as error:
            replies.append(NodeReply(repeated=repeated, error=error, said=self._new_output()))
        except OSError as error:
            replies.append(NodeReply(repeated=repeated, error=fault_of(error).error(), said=self._new_output()))

    def _open_executor(self) -> LocalExecutor:
        if self._executor is None:
            raise SandboxError("The node was not opened before it was used.")
        return self._executor

    def _checkpoint(self, name: str) -> Path:
        return self._scratch / "checkpoints" / name

    def _new_output(self) -> bytes:
        log = self._scratch / "simulators.log"
        if not log.exists():
            return b""
        with log.open("rb") as file:
            file.seek(self._log_read)
            said = file.read(OUTPUT_LIMIT)
            self._log_read = file.seek(0, os.SEEK_END)
        return said


def sweep(killed: Sequence[str] = ()) -> None:
    """Remove scratch directories of ended processes; wait for those that are being ``killed``, given by token."""
    until = time.monotonic() + SWEEP_WAIT_S
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH}{os.getuid()}-*"):
        while not _removed(path) and path.name.split("-")[3] in killed and time.monotonic() < until:
            time.sleep(0.05)


def _removed(path: Path) -> bool:
    with suppress(OSError), (path / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


_locks: list[int] = []
"""Descriptors of this process's locks, which are released when it ends."""


def _scratch(token: str = "") -> Path:
    """Create this process's scratch directory, locked before it gets its final name, so that ``sweep`` leaves it."""
    beside = Path(tempfile.mkdtemp(prefix=f".{SCRATCH}"))
    lock = os.open(beside / LOCK, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks.append(lock)
    path = beside.with_name(f"{SCRATCH}{os.getuid()}-{token}-{beside.name[len(SCRATCH) + 1 :]}")
    beside.rename(path)
    return path
