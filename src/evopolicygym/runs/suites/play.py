"""Playing a suite: a pool of child processes, each of which plays one run on cores of its own."""

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

from evopolicygym.core import regular_file
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.options import LOCAL
from evopolicygym.core.run import Stage
from evopolicygym.records.reader import EXPERIMENT_FILE
from evopolicygym.runs.experiment import SECRET_FILE_VARIABLE, accept_secret
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.runs.progress import RunProgress
from evopolicygym.runs.suites.child import RunOrder
from evopolicygym.runs.suites.document import LOG_FILE, check, directory_of, suite_lock
from evopolicygym.runs.suites.forecast import turn
from evopolicygym.runs.suites.records import (
    PlannedRunResult,
    PlannedRunStopped,
    PlannedRunVerdict,
    found,
    result_of_process,
)
from evopolicygym.runs.suites.shards import Shard, runs_of_shard
from evopolicygym.runs.suites.suite import PlannedRun, SuiteConfig, plan, validate_plan

LOG = logging.getLogger("evopolicygym")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """A run's process is up."""

    process: int
    cores: tuple[int, ...]
    """Those that it and all that it starts may use, as the system says."""


Update = ProcessStarted | RunProgress | PlannedRunResult
Observer = Callable[[PlannedRun, Update], None]
"""Called by the thread that plays the suite: when a run starts, as it proceeds, and with its result."""


def prepare_suite(
    config: SuiteConfig, on_warning: Callable[[str], object], shard: Shard | None = None
) -> tuple[SuiteConfig, tuple[PlannedRun, ...]]:
    """Return a suite as it can be played here, and its runs, or a shard's; raise ``UsageError`` if it can't be played.

    All of the suite is checked, so that every shard is refused where one of them would be.
    """
    workers = cap_workers(config.common["workers"], config.common["executor"], on_warning)
    config = replace(config, common={**config.common, "workers": workers})
    planned = plan(config)
    warnings = validate_plan(planned)
    check(config)
    for warning in warnings:
        on_warning(warning)
    return config, runs_of_shard(planned, shard) if shard else tuple(planned)


def play_suite(
    config: SuiteConfig,
    planned: Sequence[PlannedRun],
    observing: Callable[[Mapping[int, PlannedRunResult]], AbstractContextManager[Observer]],
    shard: Shard | None = None,
    command: str = "",
) -> tuple[list[PlannedRunResult], bool]:
    """Play what is not finished of a prepared suite or shard; return all results, and whether nobody interrupted it.

    ``observing`` gets the results so far, by the runs' numbers; its context gives what observes the suite meanwhile.
    ``command`` plays the same shard again. Raises ``RecordError`` where another process plays the suite or the shard,
    ``UsageError`` where a shard has no secret that all shards have.
    """
    directory, cores = directory_of(config), sorted(os.sched_getaffinity(0))
    name, log = config.common["experiment"], directory / (shard.log_file if shard else LOG_FILE)
    if not accept_secret(Path(config.common["runs"]), name) and shard and not (directory / EXPERIMENT_FILE).exists():
        raise UsageError(
            f"Missing secret: shards play the same cases only where all have one secret. Write it once with "
            f"'evopolicygym suites secret {name} -o FILE', and set {SECRET_FILE_VARIABLE}=FILE for each shard."
        )
    with suite_lock(config, shard, command) as locks:
        results = found(planned, directory)
        waiting = max(1, sum(result.verdict is not PlannedRunVerdict.FINISHED for result in results.values()))
        jobs = min(config.jobs or jobs_by_default(len(cores) if config.common["executor"] == LOCAL else 1), waiting)
        suite = Suite(results, shares(cores, jobs), locks)
        LOG.info("%s runs at once, on cores %s; log %s", jobs, cores, log)
        with observing(results) as observe:
            undisturbed = suite.play(log, observe)
    return list(suite.results.values()), undisturbed


class Suite:
    """The runs of a suite that are waiting and those that are being played."""

    def __init__(
        self, results: Mapping[int, PlannedRunResult], shares: Sequence[tuple[int, ...]], locks: tuple[int, ...]
    ) -> None:
        """Play what ``results`` says is not finished, as many runs at once as there are shares of the cores.

        Repeats begin in their order, and in each the runs first that are expected to take the longest, so that all
        shares are busy to the end.
        """
        self.results = dict(results)
        self._locks = locks
        self._shares = shares
        waiting = [result for result in results.values() if result.verdict is not PlannedRunVerdict.FINISHED]
        self._waiting = deque(sorted(waiting, key=lambda result: turn(result.planned)))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._updates: SimpleQueue[tuple[PlannedRun, Update] | Future[None]] = SimpleQueue()
        self._interruptions = 0

    def play(self, log: Path, observe: Observer) -> bool:
        """Play all that is waiting, and return whether nobody interrupted it; what runs print goes into ``log``.

        The first signal has all runs stopped in good order; a second one kills them.
        """
        with (
            ThreadPoolExecutor(len(self._shares)) as pool,
            regular_file.appender(log) as output,
            self._interruptible(),
        ):
            for share in self._shares:
                pool.submit(self._play_waiting, share, output.fileno()).add_done_callback(self._updates.put)
            playing = len(self._shares)
            try:
                while playing:
                    update = self._updates.get()
                    if isinstance(update, Future):
                        playing -= 1
                        update.result()
                        continue
                    if isinstance(update[1], PlannedRunResult):
                        self.results[update[0].number] = update[1]
                    observe(*update)
            finally:
                if playing:  # an error: nothing of the suite outlives it
                    self._waiting.clear()
                    self._interruptions = 2
                    self._stop_processes()
        return not self._interruptions

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Have signals stop the runs."""

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            self._interruptions += 1
            self._stop_processes()

        before = {number: signal.signal(number, interrupt) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _play_waiting(self, cores: tuple[int, ...], output: int) -> None:
        """Play one run after another on a share of the cores, until none waits or the suite is interrupted."""
        os.sched_setaffinity(0, cores)  # of this thread, whose processes inherit it
        while not self._interruptions:
            try:
                before = self._waiting.popleft()
            except IndexError:
                return
            self._updates.put((before.planned, self._play(before, output)))

    def _play(self, before: PlannedRunResult, output: int) -> PlannedRunResult:
        run, root, opened, stopped = before.planned, before.root, False, None
        order = RunOrder(run.config, root, tuple(sys.path), self._locks)
        with self._started(order, output) as process:
            self._updates.put((run, ProcessStarted(process.pid, tuple(sorted(os.sched_getaffinity(process.pid))))))
            for line in process.stdout or ():
                fields = json.loads(line)
                if "reason" in fields:
                    stopped = PlannedRunStopped(**fields)
                    continue
                root, opened = Path(fields["run"]), True
                self._updates.put((run, RunProgress(Stage(fields["stage"]), fields["done"], fields["total"])))
        try:
            return result_of_process(run, root, stopped, process.returncode, played=opened)
        except EvoPolicyGymError as error:
            return PlannedRunResult(
                run, PlannedRunVerdict.FAILED, root, reason=type(error).__name__, message=str(error)
            )

    @contextmanager
    def _started(self, order: RunOrder, output: int) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a run's process; wait for its end."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evopolicygym.runs.suites.child"],
            bufsize=0,
            pass_fds=order.locks,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            process_group=0,  # so that Ctrl-C reaches this process alone, which then sees to the rest
        )
        with process:
            if process.stdin:
                with suppress(BrokenPipeError):
                    pickle.dump(order, process.stdin)
            self._processes.append(process)
            if self._interruptions:
                self._stop_processes()
            try:
                yield process
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            finally:
                self._processes.remove(process)  # before its number is free for another

    def _stop_processes(self) -> None:
        """Ask each run to stop in good order; when that was asked before, kill it with all that it started."""
        for process in list(self._processes):
            if self._interruptions > 1:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            elif process.stdin:
                process.stdin.close()


def shares(cores: Sequence[int], jobs: int) -> list[tuple[int, ...]]:
    """Return which cores each of so many jobs may use: parts of all, or one each in turn where there are more jobs."""
    count = len(cores)
    if jobs > count:
        return [(cores[job % count],) for job in range(jobs)]
    return [tuple(cores[job * count // jobs : (job + 1) * count // jobs]) for job in range(jobs)]


def jobs_by_default(cores: int) -> int:
    """Return how many runs are played at once where nobody says: half as many as there are cores."""
    return max(1, cores // 2)
