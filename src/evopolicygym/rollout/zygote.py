"""The worker's handle on a zygote: starts one in a sandbox, has it fork, and starts another where one dies."""

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
from evopolicygym.core.task import Limits
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.guest.zygote import (
    ADDR_NO_RANDOMIZE,
    FORK,
    FORKED,
    LAID_AT,
    LAY,
    MESSAGE_LIMIT,
    PERSONALITY_ONLY_ASK,
    REAP,
    REAPED,
    REQUEST,
)
from evopolicygym.sandbox.base import Backend, WorkerDirectory, ZygoteView
from evopolicygym.sandbox.host import PolicyLibrary

LIGHT = ("numpy.random",)
"""Modules that every zygote loads besides numpy, which loads them lazily."""
SCIENTIFIC = (
    *LIGHT, "scipy.linalg", "scipy.signal", "scipy.optimize", "scipy.spatial", "scipy.interpolate", "scipy.ndimage",
)  # fmt: skip
"""What a zygote loads for policies that use scipy: the slow and usual parts. They make each fork and each end of a
process dearer by some milliseconds, so other policies are forked without them."""
ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
LARGEST_CHECKPOINT = 1 << 30
"""Bytes that are copied of a checkpoint whose run allows no larger one."""
ANSWER_S = 600.0
"""Seconds within which a zygote answers, however busy the machine. It runs no untrusted code, so a longer silence means
that it is broken; one that ended is noticed at once."""


@dataclass(frozen=True, slots=True)
class Child:
    """A forked policy process."""

    number: int
    """Its process number as the zygote sees it."""
    handle: int
    """A pidfd: a signal to it never hits another process."""


def create_worker_dir(root: Path, limits: Limits, library: PolicyLibrary) -> WorkerDirectory:
    """Lay out a worker's directory: the guest's code, links to the library, an empty place for the checkpoint."""
    ground = WorkerDirectory(root, library, limits)
    guest = ground.runtime / "guest"
    for directory in (guest, ground.packages, ground.policy):
        directory.mkdir(parents=True)
    for source in files("evopolicygym.rollout.guest").iterdir():
        if source.name.endswith(".py"):
            (guest / source.name).write_bytes(source.read_bytes())
    for name, path in ground.library.paths.items():
        (ground.packages / name).symlink_to(path)
    return ground


def install_checkpoint(ground: WorkerDirectory, checkpoint: Path) -> None:
    """Put a checkpoint where the policy's process finds it, in place of the one before.

    The copy's times are the same in every episode: those of the checkpoint's files tell when it was submitted. Raises
    ``RecordError`` where anything but regular files and directories lies in it: what a link names is never copied.
    """
    for entry in ground.policy.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for _ in regular_file.below(checkpoint, most=min(ground.limits.checkpoint_mb << 20, LARGEST_CHECKPOINT)):
        pass
    shutil.copytree(checkpoint, ground.policy, symlinks=True, copy_function=_copy, dirs_exist_ok=True)
    for path in (ground.policy, *ground.policy.rglob("*")):
        os.utime(path, LAID_AT, follow_symlinks=False)


def _copy(source: str, target: str) -> None:
    """Copy a regular file, and nothing else that may have come in its place."""
    with regular_file.reader(Path(source)) as read, Path(target).open("xb") as written:
        shutil.copyfileobj(read, written)
    shutil.copymode(source, target, follow_symlinks=False)


def uses_scipy(checkpoint: Path) -> bool:
    """Return whether the word scipy stands anywhere in a checkpoint's Python files; they are not read any further.

    A function of the checkpoint alone: which zygote a policy is forked from must tell it nothing of other episodes.
    """
    return any(b"scipy" in file.read_bytes() for file in checkpoint.rglob("*.py") if file.is_file())


class Zygote:
    """One zygote in one sandbox, started again when it is gone."""

    def __init__(
        self, backend: Backend, ground: WorkerDirectory, preload: Sequence[str] = LIGHT, *, pinned: bool = True
    ) -> None:
        """Start the zygote; it gets ready while the caller does other things. Raises ``SandboxError``.

        ``pinned`` says whether its children compute alike on every processor.
        """
        self._variables = {**ENVIRONMENT, **arithmetic.variables(pinned=pinned)}
        self.ground = ground
        self._preload = tuple(preload)
        self.landlock = -1
        """The Landlock ABI version that the zygote found, 0 for none; -1 until it is ready."""
        self.addresses = ""
        """In words, whether processes are laid out by chance; empty until it is ready."""
        self.checkpoint_is_new = True
        """Whether another checkpoint was laid than the zygote knows; set by who lays it."""
        self._backend = backend
        self._inside, self._control = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def policy_path(self) -> str:
        """The policy's import root, as its process sees it."""
        return self._inside.policy_path

    def fork(self, setup: Mapping[str, Any], descriptors: Sequence[int]) -> Child:
        """Have a child forked that lives by ``setup`` (``guest.episode.live``); starts a new zygote if need be."""
        message = json.dumps({**setup, "policy_path": self.policy_path}).encode()
        if len(message) > MESSAGE_LIMIT:
            raise SandboxError(f"A policy's setup of {len(message)} bytes is more than {MESSAGE_LIMIT}.")
        try:
            return self._fork(message, descriptors)
        except OSError:  # it is gone, or was killed with a policy that would not end
            self.restart()
        try:
            return self._fork(message, descriptors)
        except OSError as error:
            raise SandboxError(f"A policy's zygote ended twice while it forked: {error}.") from error

    def _fork(self, message: bytes, descriptors: Sequence[int]) -> Child:
        self.ready()
        if self._inside.copies_checkpoint and self.checkpoint_is_new:
            self._lay()
        socket.send_fds(self._control, [REQUEST.pack(FORK, 0)], list(descriptors))
        self._control.send(message)
        answer, handles, _, _ = socket.recv_fds(self._control, MESSAGE_LIMIT, 1)
        if not answer or not handles:
            raise ConnectionResetError("the zygote is gone")
        return Child(FORKED.unpack(answer)[0], handles[0])

    def _lay(self) -> None:
        """Have the zygote copy the checkpoint that was laid; raise ``OSError`` where it is gone or can't."""
        directory = os.open(self.ground.policy, os.O_RDONLY | os.O_DIRECTORY)
        try:
            socket.send_fds(self._control, [REQUEST.pack(LAY, 0)], [directory])
        finally:
            os.close(directory)
        answer = self._control.recv(MESSAGE_LIMIT)
        if not answer or REAPED.unpack(answer)[0]:
            raise ConnectionResetError("the zygote could not copy the checkpoint")
        self.checkpoint_is_new = False

    def reap(self, child: Child) -> int | None:
        """Wait for a child that is dead or dying; return its exit code, negative for a signal, None if unknown."""
        try:
            self._control.send(REQUEST.pack(REAP, child.number))
            answer = self._control.recv(MESSAGE_LIMIT)
            return int(REAPED.unpack(answer)[0]) if answer else None
        except OSError:
            self.kill()  # an answer that came late would be taken for the next one's
            return None

    def kill(self) -> None:
        """Kill the sandbox and all that is in it."""
        number = self._inside.process.pid
        with suppress(ProcessLookupError):
            if os.getpgid(number) == number:  # where there are no namespaces, its children are in its group
                os.killpg(number, signal.SIGKILL)
        self._inside.process.kill()

    def restart(self) -> None:
        """Start a new zygote in place of this one."""
        self.close()
        self._inside, self._control = self._start()

    def close(self) -> None:
        """Kill the sandbox and wait until it is gone."""
        self._control.close()
        self.kill()
        self._inside.process.wait()
        if self._inside.layers is not None:
            self._inside.layers.close()

    def _start(self) -> tuple[ZygoteView, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_LIMIT)
            ours.settimeout(ANSWER_S)
            with fixed_layout():
                inside = self._backend.policy_sandbox(self.ground, theirs.fileno(), self._variables)
        greeting = {
            "preload": self._preload,
            "confinement": asdict(inside.confinement),
            "checkpoint": inside.policy_path if inside.copies_checkpoint else "",
        }
        with suppress(OSError):  # it ended at once, which ``ready`` tells
            ours.send(json.dumps(greeting).encode())
        self.landlock = -1
        self.checkpoint_is_new = True
        return inside, ours

    def ready(self) -> None:
        """Wait until the zygote has answered its greeting; raise ``SandboxError`` if it never does."""
        if self.landlock >= 0:
            return
        try:
            answer = self._control.recv(MESSAGE_LIMIT)
            if not answer:
                raise ConnectionResetError("it ended at once")
        except OSError as error:
            self.close()
            raise SandboxError(f"A policy's zygote did not start in its sandbox: {error}.") from error
        found = json.loads(answer)
        self.landlock, self.addresses = int(found["landlock"]), str(found["addresses"])


STACK_BYTES = 8 << 20
"""Fixed limit of the stack, below which the kernel maps libraries."""


@contextmanager
def fixed_layout() -> Iterator[None]:
    """Disable address randomisation for processes that this thread starts meanwhile, where the kernel allows it.

    Python hashes objects by address by default: with random addresses, a policy that iterates over a set of objects
    would play differently every time.
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
