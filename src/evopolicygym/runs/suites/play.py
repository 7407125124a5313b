"""Playing a suite: a pool of child processes, each playing a run on its own cores."""

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
from evopolicygym.core.text import shell_word
from evopolicygym.records.experiment import SECRET_FILE_VARIABLE, accept_secret, check_nonce
from evopolicygym.records.reader import EXPERIMENT_FILE
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.runs.progress import RunProgress
from evopolicygym.runs.suites.child import RunOrder
from evopolicygym.runs.suites.document import LOG_FILE, check_document, directory_of, suite_lock
from evopolicygym.runs.suites.records import (
    PlannedRunResult,
    PlannedRunStopped,
    PlannedRunVerdict,
    find_results,
    result_of_process,
)
from evopolicygym.runs.suites.schedule import Shard, runs_of_shard, start_order
from evopolicygym.runs.suites.suite import PlannedRun, SuiteConfig, plan, validate_agents, validate_plan

LOG = logging.getLogger("evopolicygym")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """A run's process has started."""

    process: int
    cores: tuple[int, ...]
    """The cores that the process and its children may use."""


Update = ProcessStarted | RunProgress | PlannedRunResult
Observer = Callable[[PlannedRun, Update], None]
"""Called by the suite's thread with each run's start, progress and result."""


def prepare_suite(
    config: SuiteConfig, on_warning: Callable[[str], object], shard: Shard | None = None, *, to_play: bool = True
) -> tuple[SuiteConfig, tuple[PlannedRun, ...]]:
    """Return a suite with its workers capped, and its runs or a shard's; raise ``UsageError`` if it can't be played.

    The whole suite is checked, so that either all shards are accepted or none. Without ``to_play`` agents are not made,
    which need their keys and programs.
    """
    workers = cap_workers(config.common["workers"], config.common["executor"], on_warning)
    config = replace(config, common={**config.common, "workers": workers})
    planned = plan(config)
    validate_plan(planned)
    warnings = validate_agents(planned) if to_play else ()
    check_document(config)
    check_nonce(Path(config.common["runs"]), config.common["experiment"], config.common["nonce"])
    for warning in warnings:
        on_warning(warning)
    return config, runs_of_shard(planned, shard) if shard else tuple(planned)


def play_suite(
    config: SuiteConfig,
    planned: Sequence[PlannedRun],
    observing: Callable[[Mapping[int, PlannedRunResult]], AbstractContextManager[Observer]],
    shard: Shard | None = None,
) -> tuple[list[PlannedRunResult], bool]:
    """Play the unfinished runs of a prepared suite or shard; return all results, and whether it was not interrupted.

    ``observing`` gets the results so far by run number, and its context yields the observer. Raises ``RecordError`` if
    another process plays the suite or the shard, ``UsageError`` if a shard lacks the shared secret.
    """
    directory, cores = directory_of(config), sorted(os.sched_getaffinity(0))
    name, log = config.common["experiment"], directory / (shard.log_file if shard else LOG_FILE)
    if not accept_secret(Path(config.common["runs"]), name) and shard and not (directory / EXPERIMENT_FILE).exists():
        raise UsageError(
            f"Missing secret: shards need a shared secret to play the same cases. Write it once with 'evopolicygym "
            f"suites secret {shell_word(name)} -o FILE', and set {SECRET_FILE_VARIABLE}=FILE for each shard."
        )
    with suite_lock(config, shard) as locks:
        results = find_results(planned, directory)
        waiting = max(1, sum(result.verdict is not PlannedRunVerdict.FINISHED for result in results.values()))
        jobs = min(config.jobs or default_jobs(len(cores) if config.common["executor"] == LOCAL else 1), waiting)
        suite = Suite(results, split_cores(cores, jobs), locks)
        LOG.info("%s runs at once, on cores %s; log %s", jobs, cores, log)
        with observing(results) as observe:
            was_completed = suite.play(log, observe)
    return list(suite.results.values()), was_completed


class Suite:
    """The waiting and playing runs of a suite."""

    def __init__(
        self, results: Mapping[int, PlannedRunResult], split_cores: Sequence[tuple[int, ...]], locks: tuple[int, ...]
    ) -> None:
        """Prepare the unfinished runs of ``results``, to play one at a time on each share of the cores.

        Repeats start in order, and within each the longest runs first, so that all cores are busy until the end.
        """
        self.results = dict(results)
        self._locks = locks
        self._shares = split_cores
        waiting = [result for result in results.values() if result.verdict is not PlannedRunVerdict.FINISHED]
        self._waiting = deque(sorted(waiting, key=lambda result: start_order(result.planned)))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._updates: SimpleQueue[tuple[PlannedRun, Update] | Future[None]] = SimpleQueue()
        self._interruptions = 0

    def play(self, log: Path, observe: Observer) -> bool:
        """Play all waiting runs and return whether it was not interrupted; the output of runs goes into ``log``.

        The first signal stops all runs cleanly; the second kills them.
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
                if playing:  # after an error no process may survive
                    self._waiting.clear()
                    self._interruptions = 2
                    self._stop_processes()
        return not self._interruptions

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Make signals stop the runs."""

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            self._interruptions += 1
            self._stop_processes()

        previous = {number: signal.signal(number, interrupt) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _play_waiting(self, cores: tuple[int, ...], output: int) -> None:
        """Play waiting runs in turn on a share of the cores, until none is left or the suite is interrupted."""
        os.sched_setaffinity(0, cores)  # of this thread, whose processes inherit it
        while not self._interruptions:
            try:
                previous = self._waiting.popleft()
            except IndexError:
                return
            self._updates.put((previous.planned, self._play(previous, output)))

    def _play(self, previous: PlannedRunResult, output: int) -> PlannedRunResult:
        run, root, opened, stopped = previous.planned, previous.root, False, None
        order = RunOrder(run.config, root, tuple(sys.path), self._locks)
        with self._start_process(order, output) as process:
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
    def _start_process(self, order: RunOrder, output: int) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a run's process and wait for its end."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evopolicygym.runs.suites.child"],
            bufsize=0,
            pass_fds=order.locks,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            process_group=0,  # Ctrl-C reaches only this process, which stops the others
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
                self._processes.remove(process)  # before its process id can be reused

    def _stop_processes(self) -> None:
        """Ask each run to stop cleanly; the second time, kill it with its children."""
        for process in list(self._processes):
            if self._interruptions > 1:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            elif process.stdin:
                process.stdin.close()


def split_cores(cores: Sequence[int], jobs: int) -> list[tuple[int, ...]]:
    """Return the cores of each job: a part of all, or a single core each if there are more jobs than cores."""
    count = len(cores)
    if jobs > count:
        return [(cores[job % count],) for job in range(jobs)]
    return [tuple(cores[job * count // jobs : (job + 1) * count // jobs]) for job in range(jobs)]


def default_jobs(cores: int) -> int:
    """Return the default number of runs played at once: half the number of cores."""
    return max(1, cores // 2)
