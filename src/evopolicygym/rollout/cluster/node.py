"""A cluster node: a local executor with one worker, which receives and returns bytes.

Checkpoints are sent to nodes, and files of episodes are returned, as archives: directories as bytes. This module
imports no cluster software. No result depends on the state of a node: if it is lost, its cases are played on another.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from evopolicygym.core import regular_file
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, SandboxError
from evopolicygym.core.interface import InterfaceDraw
from evopolicygym.core.rollout import Episode, EpisodeJob, ExecutorInfo, Rollout, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.records import atomic
from evopolicygym.records.checkpoints import checkpoint_name
from evopolicygym.rollout.executor import Claim, ExecutorConfig, claim
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.rollout.messages import fault_of
from evopolicygym.version import __version__

Archive = Mapping[str, bytes | None]
"""Contents by POSIX path, parents first; None for a directory."""


def pack(directory: Path) -> dict[str, bytes | None]:
    """Return a directory's files and directories; raise ``RecordError`` if it contains anything else."""
    return {path.relative_to(directory).as_posix(): _content(path, directory) for path in sorted(directory.rglob("*"))}


def _content(path: Path, directory: Path) -> bytes | None:
    is_directory = path.is_dir() and not path.is_symlink()
    return None if is_directory else regular_file.read(path, regular_file.MOST_FILE, directory)


def archive_name(archive: Archive) -> str:
    """Return the name of a checkpoint, which depends on its content alone (``records/checkpoints.py``)."""
    files = {path: content for path, content in archive.items() if content is not None}
    return checkpoint_name(
        {path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()}
    )


def unpack(archive: Archive, directory: Path) -> None:
    """Replace a directory with the content of an archive, atomically.

    Raises ``RecordError`` for a path that leads out of the directory.
    """
    temporary = directory.with_name(f"{directory.name}.{atomic.TEMP_SUFFIX}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for path, content in archive.items():
        relative = PurePosixPath(path)
        if relative.is_absolute() or ".." in relative.parts:
            raise RecordError(f"Invalid path {path!r} in an archive: expected a path inside its directory.")
        target = temporary / relative
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    shutil.rmtree(directory, ignore_errors=True)
    atomic.disk.rename(temporary, directory)


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

    info: ExecutorInfo
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
    """The reason of each failed attempt at the case."""
    error: EvoPolicyGymError | None = None
    """The error raised instead of an answer."""
    output: bytes = b""
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
        self._claim = Claim(None)
        self._executor: LocalExecutor | None = None
        self._scratch = Path()
        self._log_read = 0

    def open(self) -> NodeReply:
        """Start the worker; return this machine's description."""
        sweep()
        self._scratch, self._claim = _create_scratch(self._token), claim()
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
            info = self._executor.info
            here = NodeDescription(info, __version__, os.getpid(), self._claim.core)
            replies.append(NodeReply(here, output=self._new_output()))
        return replies[0]

    def take(self, name: str, checkpoint: Archive) -> None:
        """Replace the checkpoint; raise ``SandboxError`` if its content doesn't match its name."""
        actual = archive_name(checkpoint)
        if actual != name:
            raise SandboxError(f"Checkpoint {name[:16]} actual to {platform.node()} as {actual[:16]}.")
        shutil.rmtree(self._scratch / "checkpoints", ignore_errors=True)
        unpack(checkpoint, self._checkpoint(name))

    def load(self, name: str, context: PolicyContext) -> NodeReply:
        """Construct the policy once; return why it can't be constructed, or None."""
        with self._replying([]) as replies:
            replies.append(
                NodeReply(self._open_executor().load(self._checkpoint(name), context), output=self._new_output())
            )
        return replies[0]

    def check(self, name: str, context: PolicyContext) -> NodeReply:
        """Construct the policy once and have it act once; return the trial."""
        with self._replying([]) as replies:
            replies.append(
                NodeReply(self._open_executor().check(self._checkpoint(name), context), output=self._new_output())
            )
        return replies[0]

    def play(self, name: str, context: PolicyContext, job: EpisodeJob) -> NodeReply:
        """Play one case; the job's directory only says whether files are requested."""
        directory = self._scratch / "episode"
        repeated: list[str] = []
        with self._replying(repeated) as replies:
            here = replace(job, directory=directory if job.directory else None)
            rollout = Rollout(self._checkpoint(name), context, [here])
            [(_, _, episode)] = self._open_executor().play([rollout], lambda _rollout, _job, why: repeated.append(why))
            replies.append(
                NodeReply(episode, pack(directory) if job.directory else {}, repeated, output=self._new_output())
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
            replies.append(NodeReply(repeated=repeated, error=error, output=self._new_output()))
        except OSError as error:
            replies.append(NodeReply(repeated=repeated, error=fault_of(error).error(), output=self._new_output()))

    def _open_executor(self) -> LocalExecutor:
        if self._executor is None:
            raise SandboxError("The node was used before it was opened.")
        return self._executor

    def _checkpoint(self, name: str) -> Path:
        return self._scratch / "checkpoints" / name

    def _new_output(self) -> bytes:
        log = self._scratch / "simulators.log"
        if not log.exists():
            return b""
        with log.open("rb") as file:
            file.seek(self._log_read)
            output = file.read(OUTPUT_LIMIT)
            self._log_read = file.seek(0, os.SEEK_END)
        return output


def sweep(killed: Sequence[str] = ()) -> None:
    """Remove scratch directories of ended processes; wait for those that are being ``killed``, given by token."""
    until = time.monotonic() + SWEEP_WAIT_S
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH}{os.getuid()}-*"):
        while not _try_remove(path) and path.name.split("-")[3] in killed and time.monotonic() < until:
            time.sleep(0.05)


def _try_remove(path: Path) -> bool:
    with suppress(OSError), (path / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


_locks: list[int] = []
"""Descriptors of this process's locks, which are released when it ends."""


def _create_scratch(token: str = "") -> Path:
    """Create this process's scratch directory, locked before it gets its final name, so that ``sweep`` leaves it."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{SCRATCH}"))
    lock = os.open(temporary / LOCK, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks.append(lock)
    path = temporary.with_name(f"{SCRATCH}{os.getuid()}-{token}-{temporary.name[len(SCRATCH) + 1 :]}")
    temporary.rename(path)
    return path
