"""The pool of workers that all training sessions share: one slot for each core, one queue for each session.

A slot is a thread with a core. It takes work from the queues in turn, so that a session with much work doesn't hold up
the others, and plays it by an executor of its own for the work's task. Of executors it keeps the latest few: starting
one takes a second.
"""

import os
import shutil
import tempfile
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, SandboxError
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Executor, ExecutorInfo
from evopolicygym.core.task import EnvironmentSpec, Limits
from evopolicygym.core.world import STANDARD
from evopolicygym.rollout.executor import ExecutorConfig, claim
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.private_copy import new_directory

PREFIX = "evopolicygym-training-"
Play = Callable[[Executor], None]
"""A piece of work: it plays by the executor that it is given, and handles the errors of what it plays."""


@dataclass(frozen=True, slots=True)
class _Work:
    spec: EnvironmentSpec
    play: Play
    failed: Callable[[EvoPolicyGymError], None]


def simulator_of(spec: EnvironmentSpec) -> str:
    """Return the name of what plays a task: texts make no difference."""
    return f"{spec.name}-{spec.world.name if spec.world else STANDARD}"


class Pool:
    """Plays work of many sessions on this machine's cores."""

    def __init__(self, limits: Limits, workers: int | None = None, isolation: str = AUTO, most_tasks: int = 8) -> None:
        """Start a thread for each worker; ``most_tasks`` is how many tasks' simulators each keeps running."""
        self._layers = new_directory()
        self.directory = self._layers.directory if self._layers else Path(tempfile.mkdtemp(prefix=PREFIX))
        """For files of sessions and workers, in memory if it can be; if this process is killed, the next one removes
        it."""
        self._limits, self._isolation, self._most_tasks = limits, isolation, most_tasks
        self._changed = threading.Condition()
        self._queues: OrderedDict[Hashable, deque[_Work]] = OrderedDict()
        """By owner; the one whose turn it is comes first."""
        self._infos: dict[str, ExecutorInfo] = {}
        self._closed = False
        count = workers or len(os.sched_getaffinity(0))
        self._claims = [claim() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"training-{slot}", daemon=True)
            for slot in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def workers(self) -> int:
        """How many episodes play at once."""
        return len(self._threads)

    @property
    def waiting(self) -> int:
        """How many pieces of work wait for a worker."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    def enqueue(
        self, owner: Hashable, spec: EnvironmentSpec, play: Play, failed: Callable[[EvoPolicyGymError], None]
    ) -> None:
        """Queue a piece of work behind the owner's earlier ones; ``failed`` is called if it can't be played."""
        with self._changed:
            self._queues.setdefault(owner, deque()).append(_Work(spec, play, failed))
            self._changed.notify()

    def discard(self, owner: Hashable) -> None:
        """Drop an owner's work that has not begun."""
        with self._changed:
            self._queues.pop(owner, None)

    def executor_info(self, spec: EnvironmentSpec) -> ExecutorInfo:
        """Return what a task's executor offers; the first time, wait for it to start."""
        if info := self._infos.get(simulator_of(spec)):
            return info
        self.play_and_wait(spec, lambda _: None)
        return self._infos[simulator_of(spec)]

    def play_and_wait(self, spec: EnvironmentSpec, play: Play) -> None:
        """Play a piece of work that belongs to no session, and wait for it; raise the error that prevented it."""
        done, errors = threading.Event(), list[EvoPolicyGymError]()

        def failed(error: EvoPolicyGymError) -> None:
            errors.append(error)
            done.set()

        def played(executor: Executor) -> None:
            play(executor)
            done.set()

        self.enqueue(object(), spec, played, failed)
        done.wait()
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Stop all workers; work that waits fails."""
        with self._changed:
            self._closed = True
            waiting = [work for queue in self._queues.values() for work in queue]
            self._queues.clear()
            self._changed.notify_all()
        for work in waiting:
            work.failed(SandboxError("The training server was stopped."))
        for thread in self._threads:
            thread.join()
        for claimed in self._claims:
            claimed.release()
        if self._layers:
            self._layers.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _next(self) -> _Work | None:
        """Wait for work, and take the first of the owner whose turn it is, who then comes last; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queues or self._closed)
            if self._closed:
                return None
            owner, queue = next(iter(self._queues.items()))
            work = queue.popleft()
            if queue:
                self._queues.move_to_end(owner)
            else:
                del self._queues[owner]
            return work

    def _work(self, slot: int) -> None:
        executors: OrderedDict[str, LocalExecutor] = OrderedDict()
        try:
            while work := self._next():
                name = simulator_of(work.spec)
                try:
                    executor = self._executor(executors, name, slot, work.spec)
                    work.play(executor)
                except EvoPolicyGymError as error:
                    if isinstance(error, EnvironmentFault | SandboxError) and name in executors:
                        executors.pop(name).close()
                    work.failed(error)
                except Exception as error:  # noqa: BLE001 - it must not end the slot, and whoever waits must hear of it
                    work.failed(EnvironmentFault(f"{type(error).__name__}: {error}"))
        finally:
            for executor in executors.values():
                with suppress(OSError):
                    executor.close()

    def _executor(
        self, executors: "OrderedDict[str, LocalExecutor]", name: str, slot: int, spec: EnvironmentSpec
    ) -> LocalExecutor:
        if name not in executors:
            while len(executors) >= self._most_tasks:
                executors.popitem(last=False)[1].close()
            core = self._claims[slot].core
            place = self.directory / f"slot-{slot}"
            place.mkdir(exist_ok=True)
            config = ExecutorConfig(spec, self._limits, self._isolation, place / name, place / f"{name}.log", workers=1)
            executors[name] = LocalExecutor(config, None if core is None else [core])
        executors.move_to_end(name)
        if name not in self._infos:
            self._infos[name] = executors[name].info
        return executors[name]
