"""Plays rollouts on this machine: one worker process for each core, each with its own sandbox."""

import math
import os
import shutil
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import dropwhile
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

from evopolicygym.core import regular_file
from evopolicygym.core.causes import Cause, Failure, Part, cause_of
from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, UsageError
from evopolicygym.core.rollout import ATTEMPTS, Episode, EpisodeJob, ExecutorInfo, Rollout, Trial, other_code
from evopolicygym.core.shortage import describe_shortage, need_descriptors, shortage_in
from evopolicygym.core.spaces import from_schema, is_bounded
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import PolicyContext
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.executor import Claim, ExecutorConfig, claim
from evopolicygym.rollout.messages import Blame, Check, Fault, Load, Play, Reply, WorkerConfig
from evopolicygym.rollout.policy_monitor import HANG_S
from evopolicygym.rollout.worker_process import WorkerProcess, simulator_sandbox, start_worker, truncate_log
from evopolicygym.sandbox import cgroup, private_copy
from evopolicygym.sandbox.bwrap import PACK_FINDING, bwrap_search_path
from evopolicygym.sandbox.overlays import Layers, remove_abandoned_layers
from evopolicygym.sandbox.packages import policy_library, versions_of
from evopolicygym.sandbox.program.started import kill_marked

CLEANUP_S = 2.0
"""Seconds for processes left in a worker's sandboxes to end before their control groups are removed."""
GROWTH_EVERY = 8
"""Episodes of a worker between two looks at its memory."""
MAX_GROWTH_MB = 1024.0
"""Growth of a worker's resident memory after which it is replaced: some simulators keep memory of every episode."""
DESCRIPTORS, DESCRIPTORS_OF_WORKER = 40, 3
"""Descriptors that this process must be able to have open, for a judge with its agent's connections and each worker."""
LOG_TAIL_BYTES = 600
"""Most bytes of the log's end in the error for a worker that could not start."""


Work = tuple[Rollout, EpisodeJob]
"""A job, with the rollout that it belongs to."""


@dataclass(slots=True)
class WorkerSlot:
    """A worker's place; a process that ends is replaced, and the place stays."""

    config: WorkerConfig
    process: WorkerProcess
    connection: Connection
    info: ExecutorInfo | None = None
    """None until the worker has reported that it is ready."""
    work: Work | None = None
    """What it plays now; None while it is idle."""
    played: int = 0
    """Episodes that its process has played."""
    memory_mb: float = math.inf
    """The resident memory of its process when it was first looked at."""


class LocalExecutor:
    """Plays rollouts of one environment on this machine's cores."""

    def __init__(self, config: ExecutorConfig, cores: Sequence[int | None] | None = None) -> None:
        """Start the workers, which get ready in the background. If a worker can't start, everything is released.

        ``cores`` are the cores that workers are pinned to, in turn. By default, each worker is pinned to a core that no
        other program has claimed; workers beyond those are not pinned, so that programs don't crowd one core.
        """
        scratch, log = config.scratch.resolve(), config.log.resolve()  # workers have working directories of their own
        self._spec, self._log, self._scratch = config.spec, log, scratch
        self._log_start = log.stat().st_size if log.exists() else 0
        """Bytes of the log that were written before, such as by an interrupted process of the run."""
        self._closed = False
        self._code: Mapping[str, str] = {}
        """The simulator's code, as the first worker that was ready imported it."""
        self._workers: list[int] = []
        """The process IDs of all workers that were started."""
        self._claims: list[Claim] = []
        self._slots: list[WorkerSlot] = []
        self._in_memory: Layers | None = None
        """A directory in memory for the workers' copy of what policies see; None if none can be made here."""
        try:
            self._open(config, cores)
        except BaseException:
            self.close()
            raise

    def _open(self, config: ExecutorConfig, cores: Sequence[int | None] | None) -> None:
        """Claim cores and start a worker on each."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        self._simulator_sandbox = simulator_sandbox(config.spec.pack, config.isolation, self._scratch)
        available = len(cores or os.sched_getaffinity(0))
        count = config.workers or available
        need_descriptors(DESCRIPTORS + DESCRIPTORS_OF_WORKER * count)
        if count <= available and not cores:
            self._claims.extend(claim() for _ in range(count))
        usable = cores or [claimed.core for claimed in self._claims]
        findings = {PACK_FINDING: self._simulator_sandbox.finding} if self._simulator_sandbox else {}
        packages = config.policy_packages
        shared = policy_library(packages), versions_of(packages), findings
        self._in_memory = private_copy.new_directory()
        for index in range(count):
            core, root = usable[index] if count <= len(usable) else None, self._scratch / f"worker-{index}"
            worker = WorkerConfig(
                *(config.spec, config.limits, config.isolation, core, root, HANG_S, config.pinned, *shared),
                interface=config.interface,
                in_memory=self._in_memory.directory if self._in_memory else None,
            )
            self._slots.append(self._start(worker))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> ExecutorInfo:
        """What the first worker found on this machine."""
        return replace(self._ready(self._slots[0]), workers=len(self._slots))

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return why it can't be constructed, or None."""
        return self._request(Load(checkpoint, context))  # type: ignore[return-value] # as the worker replies

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        """Construct the policy once in the sandbox and have it act once; see ``core.rollout.Executor``."""
        return self._request(Check(checkpoint, context))  # type: ignore[return-value] # as the worker replies

    def _request(self, request: Load | Check) -> Reply:
        """Send a request to the first worker, and again to its replacement if it fails; return the reply."""
        attempt = 0
        while True:
            slot = self._slots[0]
            self._ready(slot)
            reply: Reply = self._ask(slot, request)
            if not isinstance(reply, Fault):
                return reply
            attempt += 1
            if attempt >= reply.attempts:
                raise (self._explained(reply) if reply.blame is Blame.SANDBOX else reply).error()
            self._replace(slot)

    def play(
        self,
        rollouts: Sequence[Rollout],
        repeated: Callable[[Rollout, EpisodeJob, str], None],
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        """Play every job of all rollouts, yielding each as it ends; see ``core.rollout.Executor``."""
        waiting = deque((rollout, job) for rollout in rollouts for job in rollout.jobs)
        attempts = dict.fromkeys(waiting, 1)

        def start_next(slot: WorkerSlot) -> None:
            """Have a slot play the next job, if there is one and the slot is ready and idle."""
            if waiting and slot.work is None and self._is_ready(slot):
                slot.work = rollout, job = waiting.popleft()
                with suppress(OSError):  # it ended while it was idle, which counts as its reply
                    without_policy = attempts[slot.work] > ATTEMPTS
                    slot.connection.send(Play(rollout.checkpoint, rollout.context, job, without_policy=without_policy))

        try:
            while waiting or self._busy_slots():
                for slot in self._slots:
                    start_next(slot)
                for slot in self._wait_for_replies():
                    work, reply = slot.work, self._receive_reply(slot)
                    if work is None:
                        continue
                    slot.work = None
                    if isinstance(reply, Episode):
                        self._replace_grown(slot)
                        start_next(slot)  # it plays while the caller records this episode
                        yield *work, reply
                        continue
                    self._count(attempts, work, reply)
                    repeated(*work, reply.message)
                    waiting.appendleft(work)
        finally:
            for slot in self._busy_slots():
                self._replace(slot)

    def close(self) -> None:
        """Stop all workers and remove what they wrote."""
        self._closed = True
        if self._in_memory:
            self._in_memory.close()  # before workers end, which wait to see whether it is abandoned
        for slot in self._slots:
            self._stop(slot)
        cgroup.clear(self._workers, CLEANUP_S)
        for core_claim in self._claims:
            core_claim.release()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self, config: WorkerConfig) -> WorkerSlot:
        temporary = _temporary_directory(config)
        for directory in (config.root, temporary):
            shutil.rmtree(directory, ignore_errors=True)
        temporary.mkdir()
        variables = {
            **arithmetic.variables(pinned=config.pinned),
            **temporary_files_in(temporary),
            **bwrap_search_path(),
        }
        ours, theirs = socket.socketpair()
        connection = Connection(ours.detach())
        try:
            with theirs, regular_file.appender(self._log) as log:
                process = start_worker(config.spec.pack, theirs.fileno(), self._simulator_sandbox, variables, log)
        except BaseException:
            connection.close()
            raise
        self._workers.append(process.pid)
        connection.send(config)
        return WorkerSlot(config, process, connection)

    def _stop(self, slot: WorkerSlot) -> None:
        slot.connection.close()
        try:
            slot.process.wait(timeout=0 if slot.work else 2)
        except subprocess.TimeoutExpired:
            slot.process.kill()
            slot.process.wait()
        remove_abandoned_layers()
        if self._spec.pack:
            kill_marked(b"TMPDIR=%s\0" % os.fsencode(_temporary_directory(slot.config)))

    def _replace(self, slot: WorkerSlot) -> None:
        """Replace a worker that is broken or whose job was cancelled; after ``close``, only stop it."""
        self._stop(slot)
        if self._closed:
            slot.work = None
            return
        fresh = self._start(slot.config)
        slot.process, slot.connection, slot.info, slot.work = fresh.process, fresh.connection, None, None
        slot.played, slot.memory_mb = 0, math.inf

    def _replace_grown(self, slot: WorkerSlot) -> None:
        """Replace an idle worker whose memory has grown too much; a new one plays the same trajectories."""
        slot.played += 1
        if slot.played % GROWTH_EVERY:
            return
        memory_mb = _largest_memory_mb(slot.process.pid)
        slot.memory_mb = min(slot.memory_mb, memory_mb)
        if memory_mb - slot.memory_mb > MAX_GROWTH_MB:
            self._replace(slot)

    def _ready(self, slot: WorkerSlot) -> ExecutorInfo:
        """Wait until a worker is ready; return what it found."""
        if slot.info is None:
            reply = self._receive_info(slot)
            if isinstance(reply, Fault):
                raise self._startup_error(reply)
            slot.info = reply
            self._refuse_changed_code(reply)
        return slot.info

    def _refuse_changed_code(self, info: ExecutorInfo) -> None:
        """Raise ``EnvironmentFault`` if a worker imported other simulator code than the first worker."""
        self._code = self._code or info.simulator_code
        if changed := other_code(self._code, info.simulator_code):
            changes = ", ".join(f"code of {item.module}: {item.here} before, {item.there} now" for item in changed)
            raise EnvironmentFault(
                f"The simulator of {self._spec.name!r} was changed while it was being played ({changes}), so its "
                f"episodes would not be comparable. Restore it to continue."
            )

    def _startup_error(self, fault: Fault) -> EvoPolicyGymError:
        """Return the error for a worker that could not start, with the environment if its simulator failed."""
        if fault.blame is Blame.STORAGE:  # the log has only the traceback
            return fault.error()
        made = f"The environment {self._spec.name!r}{self._of_pack} could not be created: "
        which = made if fault.blame is Blame.SIMULATOR else ""
        return self._explained(replace(fault, message=which + fault.message)).error()

    def _explained(self, fault: Fault) -> Fault:
        """Return a fault with what was printed at last, and with what the machine ran out of if that says so."""
        tail = self._log_tail(fault.message)
        shortage = None if shortage_in(fault.message) else shortage_in(tail)
        hint = f" {describe_shortage(shortage)}" if shortage else ""
        return replace(fault, message=f"{fault.message}{hint}{tail}")

    @property
    def _of_pack(self) -> str:
        """The pack in messages, after the environment's name; empty if the pack has no Python of its own."""
        return f" of the pack {self._spec.pack!r}" if self._spec.pack else ""

    def _log_tail(self, known: str = "") -> str:
        """Return the last lines that this executor's simulators and sandboxes printed, none cut, none of ``known``.

        Of a traceback that is longer, the error's line remains.
        """
        with regular_file.reader(self._log) as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
            if log.tell() - self._log_start > LOG_TAIL_BYTES:
                text = text.partition("\n")[2]
        lines = dropwhile(lambda line: line.startswith(" "), text.strip("\n").splitlines())
        return "".join(f"\n{line}" for line in lines if line not in known)

    def _is_ready(self, slot: WorkerSlot) -> bool:
        return slot.info is not None or (slot.connection.poll(0) and self._ready(slot) is not None)

    def _busy_slots(self) -> list[WorkerSlot]:
        return [slot for slot in self._slots if slot.work is not None]

    def _wait_for_replies(self) -> list[WorkerSlot]:
        """Wait for messages; return the slots that have any."""
        by_connection: dict[Any, WorkerSlot] = {
            slot.connection: slot for slot in self._slots if slot.work is not None or slot.info is None
        }
        return [by_connection[item] for item in wait(list(by_connection))]

    def _receive_reply(self, slot: WorkerSlot) -> Episode | Fault:
        """Return a worker's reply to its job; a worker that ended is replaced, and its end is the reply."""
        if slot.work is None:
            self._ready(slot)
            return Fault("not a job")
        try:
            return _receive(slot)  # type: ignore[no-any-return] # as the worker replies
        except (EOFError, OSError):
            code = self._exit_code(slot)
            self._replace(slot)
            return _end_of_worker(code, "the simulator's process")
        finally:
            truncate_log(self._log)

    def _receive_info(self, slot: WorkerSlot) -> Any:  # noqa: ANN401 - the worker's first message
        try:
            return _receive(slot)
        except (EOFError, OSError) as error:
            raise EnvironmentFault(
                f"A worker of the environment {self._spec.name!r}{self._of_pack} ended during its start, exit code "
                f"{self._exit_code(slot)}; see {self._log}.{self._log_tail()}"
            ) from error

    def _ask(self, slot: WorkerSlot, request: Load | Check) -> Any:  # noqa: ANN401 - as above
        try:
            slot.connection.send(request)
            return _receive(slot)
        except (EOFError, OSError):
            return _end_of_worker(self._exit_code(slot), "a worker", Blame.SANDBOX)

    def _exit_code(self, slot: WorkerSlot) -> int | None:
        try:
            return slot.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return None

    def _count(self, attempts: dict[Work, int], work: Work, fault: Fault) -> None:
        """Count a failed attempt; raise its error after the last."""
        if fault.attempts == 1:
            raise fault.error()
        played, (_, job) = attempts[work], work
        extra = fault.blame is Blame.SIMULATOR and not is_bounded(from_schema(self.info.action_schema))
        if played >= fault.attempts + extra:
            fault = self._explained(fault) if fault.blame is Blame.SANDBOX else fault
            raise fault.error(
                f"Case {job.position} of {self._spec.name}{self._of_pack} was played {played} times and failed each "
                f"time: "
            )
        attempts[work] += 1


def _largest_memory_mb(pid: int) -> float:
    """Return the resident memory of the largest of a process and its descendants; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    own = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return max([own, *(_largest_memory_mb(int(child)) for child in children)])


def _end_of_worker(code: int | None, process: str, blame: Blame = Blame.SIMULATOR) -> Fault:
    """Return the fault of a worker that ended, which ``process`` names; ``blame`` if it wasn't killed from outside."""
    failure = Failure.of_code(Part.SIMULATOR, code)
    if cause_of(failure) is Cause.MACHINE:
        return Fault(f"{process} was {failure.killed}, exit code {code}", Blame.MACHINE)
    how = "made no progress and was ended" if code == -signal.SIGALRM else "ended by itself"
    return Fault(f"{process} {how}, exit code {code}", blame)


def _temporary_directory(config: WorkerConfig) -> Path:
    """Return the directory for temporary files of a worker's simulators."""
    return config.root.with_name(f"{config.root.name}-temporary")


def temporary_files_in(directory: Path) -> dict[str, str]:
    """Return the environment variables that set the directory for temporary files."""
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(directory))


def make(config: ExecutorConfig) -> LocalExecutor:
    """Return an executor on this machine; raise ``UsageError`` if the config has an address."""
    if config.address:
        raise UsageError(
            f"Invalid address {config.address!r}: the executor 'local' plays on this machine. To play on a cluster: "
            f"--executor ray"
        )
    return LocalExecutor(config)


def _receive(slot: WorkerSlot) -> Any:  # noqa: ANN401 - any message of a worker
    """Return a worker's next message; raise ``EOFError`` or ``OSError`` if its connection is closed."""
    try:
        return slot.connection.recv()
    except TypeError as error:  # another thread closed the connection meanwhile
        raise EOFError from error
