"""Plays rollouts on a Ray cluster: one actor for each processor of its nodes, each with its own worker and sandbox.

The event log, the lock and the secret stay with the driver. It sends a checkpoint's bytes to each node once, and the
seeds of cases one by one; episodes and their files come back. A node must equal the driver in all that results depend
on.
"""

import math
import secrets
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from evopolicygym.core import regular_file
from evopolicygym.core.errors import NodeError
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Episode, EpisodeJob, ExecutorInfo, Isolation, Rollout, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, PolicyContext
from evopolicygym.rollout.cluster.node import (
    Archive,
    Node,
    NodeDescription,
    NodeReply,
    archive_name,
    pack,
    sweep,
    unpack,
)
from evopolicygym.rollout.cluster.node_compatibility import check_nodes, incompatibilities, pack_state
from evopolicygym.rollout.cluster.ray_cluster import Machine, cluster_connection, machines
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.rollout.messages import fault_of
from evopolicygym.sandbox.levels import choose
from evopolicygym.version import __version__

MAX_LOSSES = 5
"""How often a case may be lost with its node or actor."""
MAX_START_FAILURES = 3
"""How often an actor may fail to start on a node that is alive."""
NO_WORKER_TIMEOUT_S = 180.0
"""Seconds that the run waits while no node has a worker."""
STARTUP_S = 30.0
"""Seconds that the start waits for further workers once the first is ready."""
NODE_REFRESH_S = 2.0
"""Seconds between searches for new nodes."""
POLL_S = 0.5
"""Seconds of one wait for answers."""
STOP_S = 15.0
"""Seconds that workers and sweepers have to stop before they are killed."""


@dataclass(slots=True)
class ActorSeat:
    """An actor's place on a node."""

    machine: Machine
    actor: Any
    token: str
    """Part of the name of its scratch directory."""
    answer: Any
    """The reference to its pending answer; None while it is idle."""
    info: NodeDescription | None = None
    """None until it is ready and was checked to equal the driver."""
    work: tuple[Rollout, EpisodeJob] | None = None
    """What it plays now; None while it is idle."""
    checkpoint: str = ""
    """The name of the checkpoint that was sent to it last."""


class RayExecutor:
    """Plays rollouts of one environment on the nodes of a Ray cluster."""

    def __init__(self, config: ExecutorConfig) -> None:
        """Connect and start the actors; inspect the driver's own machine meanwhile."""
        self._config, self._max_workers = config, config.workers
        level = config.isolation
        self._level = choose(level).isolation if Isolation.parse(level).backend == AUTO else level
        self._seats: list[ActorSeat] = []
        self._start_failures: Counter[str] = Counter()
        self._killed: dict[str, list[str]] = {}
        """Tokens of actors that were killed, by node."""
        self._sent: tuple[Path, str, Any] | None = None
        """The current checkpoint, its name and the reference to its bytes."""
        self._refreshed_at, self._ready_at = 0.0, time.monotonic()
        self._stack = ExitStack()
        try:
            self._stack.enter_context(cluster_connection(config.address, config.workers))
            if config.spec.pack:
                self._check_packs(config.spec)
            self._actors = ray.remote(num_cpus=1, max_restarts=0)(Node)
            self._spawn_actors()
            with LocalExecutor(replace(config, workers=1)) as driver:
                self._info = driver.info
            self._wait_for_workers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> ExecutorInfo:
        """The findings on the driver, which equal those of all nodes that play."""
        return replace(self._info, workers=len(self._ready()))

    @property
    def seats(self) -> Sequence[ActorSeat]:
        """The current actors."""
        return self._seats

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return why it can't be constructed, or None."""
        return self._request("load", checkpoint, context)  # type: ignore[no-any-return] # as the node replies

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        """Construct the policy once in the sandbox and have it act once; see ``core.rollout.Executor``."""
        return self._request("check", checkpoint, context)  # type: ignore[no-any-return] # as the node replies

    def _request(self, method: str, checkpoint: Path, context: PolicyContext) -> Any:  # noqa: ANN401 - any answer
        """Send a request to a node, and to another if it is lost; return the answer."""
        for _ in range(MAX_LOSSES):
            while not (ready := self._ready()):
                self._poll()
            seat = ready[0]
            try:
                self._send_checkpoint(seat, checkpoint)
                reply = self._handle_reply(ray.get(getattr(seat.actor, method).remote(seat.checkpoint, context)))
            except RayError as error:
                self._drop(seat, error)
                continue
            return reply.answer
        raise NodeError(f"The policy could not be constructed: {MAX_LOSSES} nodes were lost one after another.")

    def play(
        self,
        rollouts: Sequence[Rollout],
        repeated: Callable[[Rollout, EpisodeJob, str], None],
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        """Play every job of all rollouts, yielding each as it ends; one whose node is lost is played on another."""
        waiting = deque((rollout, job) for rollout in rollouts for job in rollout.jobs)
        losses = Counter[tuple[Rollout, EpisodeJob]]()
        try:
            while waiting or self._busy_seats():
                for seat in self._ready():
                    if waiting and seat.work is None:
                        seat.work = rollout, job = waiting.popleft()
                        self._send_checkpoint(seat, rollout.checkpoint)
                        seat.answer = seat.actor.play.remote(seat.checkpoint, rollout.context, job)
                for seat in self._poll():
                    work, answer = seat.work, seat.answer
                    if work is None:
                        continue
                    rollout, job = work
                    try:
                        reply = ray.get(answer)
                    except RayError as error:
                        self._drop(seat, error)
                        losses[work] += 1
                        if losses[work] == MAX_LOSSES:
                            raise NodeError(
                                f"Case {job.position} was lost {MAX_LOSSES} times with the node that played it, the "
                                f"last time with {seat.machine.name}: {_error_tail(error)}"
                            ) from error
                        waiting.appendleft(work)
                        continue
                    seat.work = seat.answer = None
                    for why in reply.repeated:
                        repeated(rollout, job, why)
                    self._handle_reply(reply)
                    self._unpack_files(job, reply.files)
                    yield rollout, job, reply.answer
        finally:
            for seat in self._busy_seats():
                self._kill(seat)

    def close(self) -> None:
        """Stop all actors and remove their scratch directories."""
        with self._stack, suppress(RayError):
            stopping = {seat.actor.close.remote(): seat for seat in self._seats}
            stopped, _ = ray.wait(list(stopping), num_returns=len(stopping), timeout=STOP_S) if stopping else ([], [])
            for item, seat in stopping.items():
                self._kill(seat, stopped=item in stopped)
            self._sweep()
        shutil.rmtree(self._config.scratch, ignore_errors=True)

    def _ready(self) -> list[ActorSeat]:
        return [seat for seat in self._seats if seat.info]

    def _busy_seats(self) -> list[ActorSeat]:
        return [seat for seat in self._seats if seat.work]

    def _check_packs(self, spec: EnvironmentSpec) -> None:
        """Raise ``NodeError`` if nodes lack the environment's pack; nodes that don't answer are checked later."""
        task = ray.remote(num_cpus=0, max_retries=0)(pack_state)
        tasks = {}
        for machine in machines():
            strategy = NodeAffinitySchedulingStrategy(machine.identity, soft=False)
            tasks[task.options(scheduling_strategy=strategy).remote(spec.pack)] = machine
        answered, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=STARTUP_S) if tasks else ([], [])
        states = {}
        for item in answered:
            with suppress(RayError):
                states[tasks[item].name] = ray.get(item)
        check_nodes(spec.pack, spec.packages, pack_state(spec.pack), states)

    def _spawn_actors(self) -> None:
        """Start actors on free processors, evenly over the nodes."""
        self._refreshed_at = time.monotonic()
        alive, most = machines(), self._max_workers or math.inf
        for round_number in range(max((item.processors for item in alive), default=0)):
            for machine in alive:
                count = sum(seat.machine.identity == machine.identity for seat in self._seats)
                if count == round_number < machine.processors and len(self._seats) < most:
                    self._seats.append(self._start(machine))

    def _start(self, machine: Machine) -> ActorSeat:
        strategy = NodeAffinitySchedulingStrategy(machine.identity, soft=False)
        config, token = self._config, secrets.token_hex(8)
        actor = self._actors.options(scheduling_strategy=strategy).remote(
            *(config.spec, config.limits, self._level, token),
            pinned=config.pinned,
            policy_packages=config.policy_packages,
            interface=config.interface,
        )
        return ActorSeat(machine, actor, token, actor.open.remote())

    def _wait_for_workers(self) -> None:
        """Wait until all workers are ready, or at least one after ``STARTUP_S``."""
        until = time.monotonic() + STARTUP_S
        while len(self._ready()) < len(self._seats) or not self._seats:
            if self._ready() and time.monotonic() > until:
                return
            self._poll()

    def _poll(self) -> list[ActorSeat]:
        """Wait briefly for answers; return the seats that answered a job."""
        if time.monotonic() - self._refreshed_at > NODE_REFRESH_S:
            self._spawn_actors()
        by_answer = {seat.answer: seat for seat in self._seats if seat.answer is not None}
        if by_answer:
            ray.wait(list(by_answer), num_returns=1, timeout=POLL_S, fetch_local=False)
            answered, _ = ray.wait(list(by_answer), num_returns=len(by_answer), timeout=0, fetch_local=False)
        else:
            time.sleep(POLL_S)
            answered = []
        seats = [by_answer[item] for item in answered]
        for seat in seats:
            if seat.info is None:
                self._open(seat)
        self._check_liveness()
        return [seat for seat in seats if seat.work]

    def _check_liveness(self) -> None:
        if self._ready():
            self._ready_at = time.monotonic()
        elif time.monotonic() - self._ready_at > NO_WORKER_TIMEOUT_S:
            names = ", ".join(machine.name for machine in machines()) or "none"
            raise NodeError(
                f"No node had a worker for {NO_WORKER_TIMEOUT_S:g} s. Nodes with processors that are alive: {names}; "
                f"{len(self._seats)} workers wait for a free processor."
            )

    def _open(self, seat: ActorSeat) -> None:
        """Check that a worker that is ready equals the driver; raise ``NodeError`` if it doesn't."""
        name = seat.machine.name
        try:
            reply: NodeReply = ray.get(seat.answer)
        except RayError as error:
            self._drop(seat, error)
            self._start_failures[seat.machine.identity] += 1
            if self._start_failures[seat.machine.identity] == MAX_START_FAILURES:
                raise NodeError(
                    f"No worker can start on {name}. It needs evopolicygym {__version__} and the environment's "
                    f"packages: {_error_tail(error)}"
                ) from error
            return
        if not isinstance(reply.answer, NodeDescription):
            raise NodeError(f"{name} can't play as the driver does: {reply.error}")
        differences = incompatibilities(self._info, reply.answer.info)
        if reply.answer.version != __version__:
            differences.insert(0, f"evopolicygym {reply.answer.version} instead of {__version__}")
        if differences:
            raise NodeError(
                f"{name} differs from the driver, so its episodes would not be comparable: {'; '.join(differences)}. "
                f"Install the versions of the driver, or remove the node from the cluster."
            )
        seat.info, seat.answer = reply.answer, None

    def _send_checkpoint(self, seat: ActorSeat, checkpoint: Path) -> None:
        """Send a checkpoint to a seat's node unless it has it; the bytes travel to each node once."""
        if self._sent is None or self._sent[0] != checkpoint:
            archive = pack(checkpoint)
            self._sent = checkpoint, archive_name(archive), ray.put(archive)
        _, name, archive_there = self._sent
        if seat.checkpoint != name:
            seat.actor.take.remote(name, archive_there)
            seat.checkpoint = name

    def _handle_reply(self, reply: NodeReply) -> NodeReply:
        """Log a node's output and raise its error, if any."""
        if reply.output:
            with regular_file.appender(self._config.log) as log:
                log.write(reply.output)
        if reply.error:
            raise reply.error
        return reply

    def _unpack_files(self, job: EpisodeJob, files: Archive) -> None:
        if job.directory is None:
            return
        try:
            unpack(files, job.directory)
        except OSError as error:
            raise fault_of(error).error() from error

    def _drop(self, seat: ActorSeat, error: RayError) -> None:
        """Drop an actor that ended, and log why."""
        at = f" while it played case {seat.work[1].position}" if seat.work else ""
        with regular_file.appender(self._config.log) as log:
            log.write(f"A worker on {seat.machine.name} was lost{at}: {_error_tail(error)}\n".encode())
        self._kill(seat)

    def _kill(self, seat: ActorSeat, *, stopped: bool = False) -> None:
        if seat in self._seats:
            self._seats.remove(seat)
        with suppress(RayError):
            ray.kill(seat.actor)
        if not stopped:
            self._killed.setdefault(seat.machine.identity, []).append(seat.token)

    def _sweep(self) -> None:
        """Have the nodes remove the scratch directories of killed actors."""
        alive = {machine.identity for machine in machines()} if self._killed else set()
        task = ray.remote(num_cpus=0, max_retries=0)(sweep)
        sweeping = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(tokens)
            for node, tokens in self._killed.items()
            if node in alive
        ]
        if sweeping:
            ray.wait(sweeping, num_returns=len(sweeping), timeout=STOP_S)


def make(config: ExecutorConfig) -> RayExecutor:
    """Return an executor on the cluster at the config's address, or on a new cluster on this machine."""
    return RayExecutor(config)


def _error_tail(error: Exception) -> str:
    """Return the end of Ray's error text, which names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[-400:] or type(error).__name__
