"""Rollouts on this machine: one worker process a core, each with its own sandbox."""

import os
import shutil
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

from evopolicygym.core import regular_file
from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, UsageError
from evopolicygym.core.rollout import ATTEMPTS, Episode, EpisodeJob, ExecutorInfo, Trial, other_code
from evopolicygym.core.spaces import from_schema, is_bounded
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import PolicyContext
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.cores import Claim, claim
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.messages import Blame, Check, Fault, Load, Play, Reply, WorkerConfig
from evopolicygym.rollout.watchdog import HANG_S
from evopolicygym.rollout.worker_process import WorkerProcess, bound, start, walls_of
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.bwrap import PACK_FINDING, bwrap_search_path
from evopolicygym.sandbox.overlays import remove_abandoned_layers
from evopolicygym.sandbox.packages import policy_library, versions_of
from evopolicygym.sandbox.program.started import kill_marked

GONE_S = 2.0
"""Seconds in which what a worker left of its sandboxes ends, and their control groups can be removed."""
DEATH = "the simulator's process ended by itself"
DEATHS: dict[int | None, str] = {-signal.SIGALRM: "the simulator made no progress and was ended"}
"""What is said of a worker's end, by its exit code."""
LAST_WORDS = 600
"""Characters of the log that a failure to get ready is reported with."""


@dataclass(slots=True)
class WorkerSeat:
    """One worker's place: the process may be replaced, the place stays."""

    config: WorkerConfig
    process: WorkerProcess
    connection: Connection
    grounds: ExecutorInfo | None = None
    """None until the worker has said that it is ready."""
    job: EpisodeJob | None = None
    """What it plays at present."""
    attempts: dict[int, int] = field(default_factory=dict)


class LocalExecutor:
    """Plays rollouts of one environment on this machine's cores."""

    def __init__(self, config: ExecutorConfig, cores: Sequence[int | None] | None = None) -> None:
        """Start the workers; they get ready while the caller does other things. Nothing is kept where one can't start.

        ``cores`` are those that workers are pinned to, one after another. By default each has a core that no other
        program has claimed, and none where there isn't one, so that programs side by side don't crowd one core.
        """
        scratch, log = config.scratch.resolve(), config.log.resolve()  # workers have working directories of their own
        self._spec, self._log, self._scratch = config.spec, log, scratch
        self._closed = False
        self._code: Mapping[str, str] = {}
        """The simulator's, as the first worker to be ready has imported it."""
        self._workers: list[int] = []
        """The process number of every worker that was started."""
        self._claims: list[Claim] = []
        self._seats: list[WorkerSeat] = []
        try:
            self._open(config, cores)
        except BaseException:
            self.close()
            raise

    def _open(self, config: ExecutorConfig, cores: Sequence[int | None] | None) -> None:
        """Claim cores and start a worker on each."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        self._walls = walls_of(config.spec.pack, config.isolation, self._scratch)
        available = len(cores or os.sched_getaffinity(0))
        count = config.workers or available
        if count <= available and not cores:
            self._claims.extend(claim() for _ in range(count))
        usable = cores or [claimed.core for claimed in self._claims]
        walls = {PACK_FINDING: self._walls.finding} if self._walls else {}
        packages = config.policy_packages
        offered = policy_library(packages), versions_of(packages), walls
        for place in range(count):
            core, root = usable[place] if count <= len(usable) else None, self._scratch / f"worker-{place}"
            worker = WorkerConfig(
                *(config.spec, config.limits, config.isolation, core, root, HANG_S, config.pinned, *offered)
            )
            self._seats.append(self._start(worker))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def grounds(self) -> ExecutorInfo:
        """What the first worker found here."""
        return replace(self._ready(self._seats[0]), workers=len(self._seats))

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return why it can't be, or None."""
        return self._done(Load(checkpoint, context))  # type: ignore[return-value] # by the worker's contract

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        """Construct the policy once in the sandbox and have it act once; see ``core.rollout.Executor``."""
        return self._done(Check(checkpoint, context))  # type: ignore[return-value] # by the worker's contract

    def _done(self, request: Load | Check) -> Reply:
        """Have the first worker do something, and another where it can't; return its answer."""
        for attempt in range(1, ATTEMPTS + 1):
            seat = self._seats[0]
            self._ready(seat)
            reply: Reply = self._asked(seat, request)
            if not isinstance(reply, Fault):
                return reply
            if attempt == ATTEMPTS:
                raise reply.error()
            self._replace(seat)
        raise AssertionError("unreachable")

    def play(
        self,
        checkpoint: Path,
        context: PolicyContext,
        jobs: Sequence[EpisodeJob],
        repeated: Callable[[EpisodeJob, str], None],
    ) -> Iterator[tuple[EpisodeJob, Episode]]:
        """Play every job, yielding each as it ends; see ``core.rollout.Executor``."""
        waiting, attempts = deque(jobs), dict.fromkeys((job.position for job in jobs), 1)
        try:
            while waiting or self._busy():
                for seat in self._seats:
                    if waiting and seat.job is None and self._is_ready(seat):
                        seat.job = waiting.popleft()
                        with suppress(OSError):  # it died while it had nothing to do: its end is its answer
                            alone = attempts[seat.job.position] > ATTEMPTS
                            seat.connection.send(Play(checkpoint, context, seat.job, without_policy=alone))
                for seat in self._answered():
                    job, reply = seat.job, self._received(seat)
                    if job is None:
                        continue
                    seat.job = None
                    if isinstance(reply, Episode):
                        yield job, reply
                        continue
                    self._count(attempts, job, reply)
                    repeated(job, reply.message)
                    waiting.appendleft(job)
        finally:
            for seat in self._busy():
                self._replace(seat)

    def close(self) -> None:
        """Stop all workers and remove what they wrote."""
        self._closed = True
        for seat in self._seats:
            self._stop(seat)
        cgroup.clear(self._workers, GONE_S)
        for claimed in self._claims:
            claimed.release()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self, config: WorkerConfig) -> WorkerSeat:
        temporary = _temporary(config)
        for directory in (config.root, temporary):
            shutil.rmtree(directory, ignore_errors=True)
        temporary.mkdir()
        ours, theirs = socket.socketpair()
        with theirs, regular_file.appender(self._log) as log:
            variables = {
                **arithmetic.variables(pinned=config.pinned),
                **temporary_files_in(temporary),
                **bwrap_search_path(),
            }
            process = start(config.spec.pack, theirs.fileno(), self._walls, variables, log)
        self._workers.append(process.pid)
        connection = Connection(ours.detach())
        connection.send(config)
        return WorkerSeat(config, process, connection)

    def _stop(self, seat: WorkerSeat) -> None:
        seat.connection.close()
        try:
            seat.process.wait(timeout=0 if seat.job else 2)
        except subprocess.TimeoutExpired:
            seat.process.kill()
            seat.process.wait()
        remove_abandoned_layers()
        if self._spec.pack:
            kill_marked(b"TMPDIR=%s\0" % os.fsencode(_temporary(seat.config)))

    def _replace(self, seat: WorkerSeat) -> None:
        """Start a new worker in the place of one that is broken or whose work is no longer wanted; none once closed."""
        self._stop(seat)
        if self._closed:
            seat.job = None
            return
        fresh = self._start(seat.config)
        seat.process, seat.connection, seat.grounds, seat.job = fresh.process, fresh.connection, None, None

    def _ready(self, seat: WorkerSeat) -> ExecutorInfo:
        """Return what a worker found; wait until it is ready."""
        if seat.grounds is None:
            reply = self._read(seat)
            if isinstance(reply, Fault):
                raise self._not_ready(reply)
            seat.grounds = reply
            self._refuse_changed_code(reply)
        return seat.grounds

    def _refuse_changed_code(self, grounds: ExecutorInfo) -> None:
        """Raise ``EnvironmentFault`` where a worker has imported other code of the simulator than those before it."""
        self._code = self._code or grounds.simulator_code
        if changed := other_code(self._code, grounds.simulator_code):
            changes = ", ".join(f"code of {item.module}: {item.here} before, {item.there} now" for item in changed)
            raise EnvironmentFault(
                f"The simulator of {self._spec.name!r} was changed while it was being played ({changes}), so that its "
                f"episodes would not be comparable. Put it back as it was to go on."
            )

    def _not_ready(self, fault: Fault) -> EvoPolicyGymError:
        """Return what is said of a worker that never got ready; of a simulator, which one."""
        made = f"The environment {self._spec.name!r}{self._of_pack} could not be made: "
        which = made if fault.blame is Blame.SIMULATOR else ""
        return replace(fault, message=f"{which}{fault.message}{self._log_tail()}").error()

    @property
    def _of_pack(self) -> str:
        """What is said after the environment's name where its pack has a Python of its own."""
        return f" of the pack {self._spec.pack!r}" if self._spec.pack else ""

    def _log_tail(self) -> str:
        """Return the end of what simulators and sandboxes printed."""
        with regular_file.reader(self._log) as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4 * LAST_WORDS))
            said = log.read().decode("utf-8", "replace").strip()[-LAST_WORDS:]
        return f"\n{said}" if said else ""

    def _is_ready(self, seat: WorkerSeat) -> bool:
        return seat.grounds is not None or (seat.connection.poll(0) and self._ready(seat) is not None)

    def _busy(self) -> list[WorkerSeat]:
        return [seat for seat in self._seats if seat.job is not None]

    def _answered(self) -> list[WorkerSeat]:
        """Wait until a worker says something; return those that did."""
        by_connection: dict[Any, WorkerSeat] = {
            seat.connection: seat for seat in self._seats if seat.job is not None or seat.grounds is None
        }
        return [by_connection[item] for item in wait(list(by_connection))]

    def _received(self, seat: WorkerSeat) -> Episode | Fault:
        """Return a worker's reply to its job; a worker that died is replaced, and its death is the reply."""
        if seat.job is None:
            self._ready(seat)
            return Fault("not a job")
        try:
            return _next(seat)  # type: ignore[no-any-return] # by the worker's contract
        except (EOFError, OSError):
            code = self._ended(seat)
            self._replace(seat)
            return Fault(f"{DEATHS.get(code, DEATH)}, exit code {code}")
        finally:
            bound(self._log)

    def _read(self, seat: WorkerSeat) -> Any:  # noqa: ANN401 - the worker's first words
        try:
            return _next(seat)
        except (EOFError, OSError) as error:
            raise EnvironmentFault(
                f"A worker of the environment {self._spec.name!r}{self._of_pack} ended while it got ready, exit code "
                f"{self._ended(seat)}; see {self._log}.{self._log_tail()}"
            ) from error

    def _asked(self, seat: WorkerSeat, request: Load | Check) -> Any:  # noqa: ANN401 - as above
        try:
            seat.connection.send(request)
            return _next(seat)
        except (EOFError, OSError):
            return Fault(f"a worker ended by itself, exit code {self._ended(seat)}", Blame.SANDBOX)

    def _ended(self, seat: WorkerSeat) -> int | None:
        try:
            return seat.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return None

    def _count(self, attempts: dict[int, int], job: EpisodeJob, fault: Fault) -> None:
        """Count an attempt that failed; raise what it was where no other is due."""
        if fault.blame is Blame.STORAGE:  # no attempt would find more room
            raise fault.error()
        played = attempts[job.position]
        is_policys = fault.blame is Blame.SIMULATOR and not is_bounded(from_schema(self.grounds.action_schema))
        if played >= ATTEMPTS + is_policys:
            raise fault.error(
                f"Case {job.position} of {self._spec.name}{self._of_pack} was played {played} times and failed each "
                f"time: "
            )
        attempts[job.position] += 1


def _temporary(config: WorkerConfig) -> Path:
    """Return where a worker's simulators leave their temporary files."""
    return config.root.with_name(f"{config.root.name}-temporary")


def temporary_files_in(directory: Path) -> dict[str, str]:
    """Return the environment variables by which programs put their temporary files into a directory."""
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(directory))


def make(config: ExecutorConfig) -> LocalExecutor:
    """Return an executor on this machine; raise ``UsageError`` where another is named."""
    if config.address:
        raise UsageError(
            f"The executor 'local' plays on this machine and was given the address {config.address!r}; --executor ray "
            f"plays on a cluster."
        )
    return LocalExecutor(config)


def _next(seat: WorkerSeat) -> Any:  # noqa: ANN401 - whatever a worker says
    """Return what a worker says next; raise ``EOFError`` or ``OSError`` where there is nothing more to come."""
    try:
        return seat.connection.recv()
    except TypeError as error:  # what it raises where another thread closes it in the middle
        raise EOFError from error
