"""Starts a zygote in a sandbox, has it fork policy processes, and replaces it if it dies."""

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from evopolicygym.core import regular_file
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.shortage import describe_shortage, shortage_of
from evopolicygym.core.task import Limits
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.guest.zygote import (
    ADDR_NO_RANDOMIZE,
    COPY,
    FILE_TIMES,
    FORK,
    FORKED,
    MESSAGE_LIMIT,
    PERSONALITY_ONLY_ASK,
    REAP,
    REAPED,
    REQUEST,
)
from evopolicygym.sandbox.base import Backend, WorkerDirectory, ZygoteView
from evopolicygym.sandbox.host import PolicyLibrary
from evopolicygym.sandbox.private_copy import need_copy

LIGHT = ("numpy.random",)
"""Modules that every zygote loads besides numpy, since numpy imports them lazily."""
SCIENTIFIC = (
    *LIGHT, "scipy.linalg", "scipy.signal", "scipy.optimize", "scipy.spatial", "scipy.interpolate", "scipy.ndimage",
)  # fmt: skip
"""Modules that a zygote loads for policies that use scipy: those that are slow to import and common. They add some
milliseconds to each fork and exit, so other policies are forked without them."""
ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
LARGEST_CHECKPOINT = 1 << 30
"""Most bytes of a checkpoint that are copied, whatever its run allows."""
ANSWER_S = 600.0
"""Seconds in which a zygote must answer, however busy the machine. It runs no untrusted code, so a longer silence means
that it is broken. The end of a zygote is noticed at once."""


@dataclass(frozen=True, slots=True)
class Child:
    """A forked policy process."""

    pid: int
    """Its PID as the zygote sees it."""
    handle: int
    """A pidfd: a signal to it never hits another process."""


def create_worker_dir(
    root: Path, limits: Limits, library: PolicyLibrary, in_memory: Path | None = None
) -> WorkerDirectory:
    """Create a worker's directory: the guest's code, links to packages and an empty directory for the checkpoint."""
    worker_dir = WorkerDirectory(root, library, limits, in_memory)
    guest = worker_dir.runtime / "guest"
    for directory in (guest, worker_dir.packages, worker_dir.policy):
        directory.mkdir(parents=True)
    for source in files("evopolicygym.rollout.guest").iterdir():
        if source.name.endswith(".py"):
            (guest / source.name).write_bytes(source.read_bytes())
    for name, path in worker_dir.library.paths.items():
        (worker_dir.packages / name).symlink_to(path)
    return worker_dir


def install_checkpoint(worker_dir: WorkerDirectory, checkpoint: Path) -> None:
    """Replace the checkpoint in a worker's directory.

    All copied files have the same times, since those of the checkpoint show when it was submitted, and the same modes,
    since the sandbox's user may be another. Links are never followed: raises ``RecordError`` for anything but regular
    files and directories.
    """
    for entry in worker_dir.policy.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for _ in regular_file.below(checkpoint, most=min(worker_dir.limits.checkpoint_mb << 20, LARGEST_CHECKPOINT)):
        pass
    shutil.copytree(checkpoint, worker_dir.policy, symlinks=True, copy_function=_copy, dirs_exist_ok=True)
    for path in (worker_dir.policy, *worker_dir.policy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, FILE_TIMES, follow_symlinks=False)


def _copy(source: str, target: str) -> None:
    """Copy a regular file; raise ``RecordError`` if the path is anything else by now."""
    with regular_file.reader(Path(source)) as read, Path(target).open("xb") as written:
        shutil.copyfileobj(read, written)


def uses_scipy(checkpoint: Path) -> bool:
    """Return whether the word scipy occurs in a checkpoint's Python files, which are not parsed.

    The result depends on the checkpoint alone: a policy's zygote must not reveal anything about other episodes.
    """
    return any(b"scipy" in file.read_bytes() for file in checkpoint.rglob("*.py") if file.is_file())


class Zygote:
    """A zygote in a sandbox; it is restarted if it dies."""

    def __init__(
        self, backend: Backend, worker_dir: WorkerDirectory, preload: Sequence[str] = LIGHT, *, pinned: bool = True
    ) -> None:
        """Start the zygote, which gets ready in the background. Raises ``SandboxError``.

        ``pinned`` sets whether arithmetic of its children is pinned.
        """
        self._variables = {**ENVIRONMENT, **arithmetic.variables(pinned=pinned)}
        self._worker_dir = worker_dir
        self._preload = tuple(preload)
        self.landlock = -1
        """The kernel's Landlock ABI version, 0 for none; -1 until the zygote is ready."""
        self.addresses = ""
        """Whether the kernel randomises addresses, as text; empty until the zygote is ready."""
        self.checkpoint_is_new = True
        """Whether a checkpoint was installed that the zygote has not copied yet; set by the worker."""
        self._backend = backend
        self._view, self._control = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def policy_path(self) -> str:
        """The policy's import root, as its process sees it."""
        return self._view.policy_path

    @property
    def findings(self) -> Mapping[str, str]:
        """Findings on its sandbox."""
        return self._view.findings

    def need_files(self) -> None:
        """Raise ``SandboxError`` if files that its policies see are gone."""
        if self._view.copy is not None:
            need_copy(self._view.copy)

    def fork(self, setup: Mapping[str, Any], descriptors: Sequence[int]) -> Child:
        """Fork a policy process with ``setup`` (``guest.episode.run_policy``); restart the zygote if it has died."""
        message = json.dumps({**setup, "policy_path": self.policy_path}).encode()
        if len(message) > MESSAGE_LIMIT:
            raise SandboxError(f"Invalid policy setup: expected at most {MESSAGE_LIMIT} bytes, got {len(message)}.")
        try:
            return self._fork(message, descriptors)
        except OSError:  # it has died, or was killed with a policy that did not end
            self.restart()
        try:
            return self._fork(message, descriptors)
        except OSError as error:
            raise SandboxError(f"A policy's zygote ended twice while it forked: {error}.") from error

    def _fork(self, message: bytes, descriptors: Sequence[int]) -> Child:
        self.wait_until_ready()
        if self._view.copies_checkpoint and self.checkpoint_is_new:
            self._send_checkpoint()
        socket.send_fds(self._control, [REQUEST.pack(FORK, 0)], list(descriptors))
        self._control.send(message)
        answer, handles, _, _ = socket.recv_fds(self._control, MESSAGE_LIMIT, 1)
        if not answer or not handles:
            raise ConnectionResetError("the zygote is gone")
        return Child(FORKED.unpack(answer)[0], handles[0])

    def _send_checkpoint(self) -> None:
        """Have the zygote copy the installed checkpoint; raise ``OSError`` if it can't or has died."""
        source = os.open(self._worker_dir.policy, os.O_RDONLY | os.O_DIRECTORY)
        try:
            socket.send_fds(self._control, [REQUEST.pack(COPY, 0)], [source])
        finally:
            os.close(source)
        answer = self._control.recv(MESSAGE_LIMIT)
        if not answer or REAPED.unpack(answer)[0]:
            raise ConnectionResetError("the zygote could not copy the checkpoint")
        self.checkpoint_is_new = False

    def reap(self, child: Child) -> int | None:
        """Wait for a child that is dead or dying; return its exit code, negative for a signal, None if unknown."""
        try:
            self._control.send(REQUEST.pack(REAP, child.pid))
            answer = self._control.recv(MESSAGE_LIMIT)
            return int(REAPED.unpack(answer)[0]) if answer else None
        except OSError:
            self.kill()  # a late answer would be taken for the answer to the next request
            return None

    def kill(self) -> None:
        """Kill the sandbox and all its processes."""
        pid = self._view.process.pid
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == pid:  # without namespaces, its children are in its process group
                os.killpg(pid, signal.SIGKILL)
        self._view.process.kill()

    def restart(self) -> None:
        """Replace the zygote's process by a new one."""
        self.close()
        self._view, self._control = self._start()

    def close(self) -> None:
        """Kill the sandbox and wait until it is gone."""
        self._control.close()
        self.kill()
        self._view.process.wait()
        if self._view.layers is not None:
            self._view.layers.close()

    def _start(self) -> tuple[ZygoteView, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_LIMIT)
            ours.settimeout(ANSWER_S)
            with fixed_layout():
                view = self._backend.policy_sandbox(self._worker_dir, theirs.fileno(), self._variables)
        greeting = {
            "preload": self._preload,
            "confinement": asdict(view.confinement),
            "checkpoint": view.policy_path if view.copies_checkpoint else "",
        }
        with suppress(OSError):  # it ended at once, which ``wait_until_ready`` reports
            ours.send(json.dumps(greeting).encode())
        self.landlock = -1
        self.checkpoint_is_new = True
        return view, ours

    def wait_until_ready(self) -> None:
        """Wait until the zygote has answered its greeting; raise ``SandboxError`` if it doesn't."""
        if self.landlock >= 0:
            return
        try:
            answer = self._control.recv(MESSAGE_LIMIT)
            if not answer:
                raise ConnectionResetError("it ended at once")
        except OSError as error:
            self.close()
            raise SandboxError(f"A policy's zygote did not start in its sandbox: {error}.") from error
        reply = json.loads(answer)
        if "error" in reply:
            self.close()
            shortage = shortage_of(OSError(reply["errno"], ""))
            hint = f" {describe_shortage(shortage)}" if shortage else ""
            raise SandboxError(f"A policy's zygote did not start in its sandbox: {reply['error']}.{hint}")
        self.landlock, self.addresses = int(reply["landlock"]), str(reply["addresses"])


STACK_BYTES = 8 << 20
"""Fixed stack limit: the kernel maps libraries below it."""


@contextmanager
def fixed_layout() -> Iterator[None]:
    """Disable address randomisation for processes that this thread starts in the block, if the kernel allows it.

    Python hashes objects by address by default: with random addresses, a policy that iterates over a set of objects
    would play differently in every episode.
    """
    libc = ctypes.CDLL(None)
    before, (soft, hard) = libc.personality(PERSONALITY_ONLY_ASK), resource.getrlimit(resource.RLIMIT_STACK)
    stack = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    libc.personality(before | ADDR_NO_RANDOMIZE)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
        libc.personality(before)
