"""The open sessions of one server: admission, the time-out of dead clients, and answers about lost ones.

All methods run in the server's event loop; sessions are played by the pool's threads. When as many sessions are open as
there may be, the next one waits in a queue. A session whose client has not asked for ``idle_s`` is closed, but never
while a request of it is answered or anything of it is played. A session that is no longer there is never replaced.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Self, TypedDict, Unpack

from starlette.concurrency import run_in_threadpool

from evopolicygym.analysis.ranking.known_scale import KnownScale
from evopolicygym.core import cases
from evopolicygym.core.cases import PUBLIC_KEY
from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused, UnknownName, UsageError
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Executor
from evopolicygym.core.task import EnvironmentSpec, TaskInterface, TaskText
from evopolicygym.judge.rollouts import EpisodeJobBuilder
from evopolicygym.runs.anchors import measure_world_anchors
from evopolicygym.training.actions import actions_of
from evopolicygym.training.draw import LIMITS, Distribution, DrawnTask, TrainingSplit, draw, parse_seed
from evopolicygym.training.pool import Pool, simulator_of
from evopolicygym.training.rewards import RewardRule, Shaping, scale_of
from evopolicygym.training.session import Outcome, TrainingSession, join_outcomes

WORLD_CASES = 32
"""Cases on which the scale of a task in a world is measured."""
MOST_REMEMBERED = 10_000
"""The latest closed sessions of which it is known why they were closed, and results of scored ones."""


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """What a training server offers."""

    distribution: Distribution = field(default_factory=Distribution)
    rule: RewardRule = field(default_factory=RewardRule)
    sessions: int = 256
    """Sessions that are open at once; further ones wait."""
    idle_s: float = 900.0
    """Seconds without a request after which a session is closed."""
    queue_s: float = 600.0
    """Seconds that a session waits to be opened."""
    wait_s: float = 30.0
    """Seconds that a submission, a look and a finish wait for what is played before they answer."""
    keep: Path | None = None
    """The directory for event logs of sessions; None to keep none."""
    workers: int | None = None
    """Episodes that play at once; None for one on each core."""
    isolation: str = AUTO

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for an invalid number."""
        for name in ("sessions", "idle_s", "queue_s"):
            if not getattr(self, name) > 0:
                raise UsageError(f"Invalid {name}: expected a number above 0, got {getattr(self, name)}.")
        if self.wait_s < 0:
            raise UsageError(f"Invalid wait_s: expected a number from 0, got {self.wait_s}.")


class TrainingOptions(TypedDict, total=False):
    """Options of training sessions, as Python and the command line give them; all have a default."""

    split: str
    """``train``, ``evaluation`` or ``benchmark``."""
    tasks: Sequence[str]
    """Tasks of the split; by default all."""
    interfaces: Sequence[str]
    """``standard``, ``permuted``, ``anonymous``; by default all."""
    worlds: Sequence[str]
    """``standard`` by default; ``noisy``, ``late``, ``stirred``, or a world that ships with every task."""
    texts: Sequence[str]
    """``full`` and ``terse``; by default both."""
    budgets: Sequence[int]
    """Train episodes of a session, from 8 to 64; by default 8, 16, 32 and 64."""
    validation: int
    """Hidden validation cases."""
    held_out: int
    """Hidden held-out cases."""
    shaping: str
    """What a submission is worth: ``none``, ``train`` or ``validation``."""
    price: float
    """What the whole budget costs, from 0 to 1."""
    keep: str | Path
    """A directory for event logs."""
    workers: int
    """Episodes that play at once."""
    isolation: str
    """The sandbox of policies."""
    sessions: int
    """Sessions that are open at once."""
    idle_s: float
    """Seconds without a request after which a session is closed."""
    wait_s: float
    """Seconds that an answer waits for what is played."""


def training_config(**options: Unpack[TrainingOptions]) -> TrainingConfig:
    """Return the configuration that options make; raise ``UsageError`` for an invalid one."""
    given = dict(options)
    if unknown := sorted(given.keys() - TrainingOptions.__annotations__.keys()):
        raise UnknownName("option of training", unknown[0], TrainingOptions.__annotations__)
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    kinds = {"split": TrainingSplit, "interfaces": TaskInterface, "texts": TaskText, "shaping": Shaping}
    for name, kind in kinds.items():
        if name in values:
            many = not isinstance(values[name], str)
            choices = tuple(_choice(name, each, kind) for each in (values[name] if many else (values[name],)))
            values[name] = choices if many else choices[0]
    for name in ("tasks", "worlds", "budgets"):
        if name in values:
            values[name] = tuple(values[name])
    if "keep" in values:
        values["keep"] = Path(values["keep"])

    def fields_of(kind: type[Any]) -> dict[str, Any]:
        return {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}

    return TrainingConfig(Distribution(**fields_of(Distribution)), RewardRule(**fields_of(RewardRule)), **values)


def _choice(name: str, value: object, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError:
        raise UsageError(f"Invalid {name}: expected {', '.join(kind)}, got {str(value)[:60]!r}.") from None


@dataclass(frozen=True, slots=True)
class SessionFactory:
    """Opens sessions on a pool, for the server and the plain classes."""

    config: TrainingConfig
    pool: Pool
    _scales: dict[str, KnownScale] = field(default_factory=dict, repr=False)
    """Of tasks in worlds."""
    _measuring: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def of(cls, config: TrainingConfig) -> Self:
        """Return the factory of a configuration, with a pool of its own."""
        return cls(config, Pool(LIMITS, config.workers, config.isolation))

    def open(self, seed: int) -> TrainingSession:
        """Open the session that a seed names; raise ``UsageError``, or what keeps its task from being played."""
        drawn = draw(self.config.distribution, seed)
        info, scale = self.pool.executor_info(drawn.task.environment), self._scale(drawn)
        session = TrainingSession(drawn, self.pool, info, scale, self.config.rule)
        if self.config.keep:
            self.config.keep.mkdir(parents=True, exist_ok=True)
            session.log_events(self.config.keep / f"{session.id}.jsonl")
        return session

    def _scale(self, drawn: DrawnTask) -> KnownScale:
        """Return a task's scale; in a world, it is measured on public cases the first time."""
        spec, name = drawn.task.environment, simulator_of(drawn.task.environment)
        if spec.world is None:
            return scale_of(spec)
        with self._measuring:
            if name not in self._scales:
                self._scales[name] = scale_of(self._measured(spec))
        return self._scales[name]

    def _measured(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        measured = list[EnvironmentSpec]()
        builder = EpisodeJobBuilder(cases.derive(PUBLIC_KEY, spec.name), PUBLIC_KEY, 0)

        def measure(executor: Executor) -> None:
            measured.append(measure_world_anchors(executor, spec, builder, WORLD_CASES))

        self.pool.play_and_wait(spec, measure)
        return measured[0]

    def task(self, seed: int) -> str:
        """Return what the agent of a seed's session reads first."""
        session = self.open(seed)
        session.close()
        return session.task


@dataclass(slots=True)
class _Open:
    session: TrainingSession
    requests: int = 0
    """Those that are being answered."""


class Sessions:
    """The sessions of a server."""

    def __init__(self, factory: SessionFactory) -> None:
        self._factory, self._config = factory, factory.config
        self._open: dict[str, _Open] = {}
        self._closed: OrderedDict[str, str] = OrderedDict()
        """Why sessions were closed."""
        self._results: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """The documents of scored sessions that are closed."""
        self._places = asyncio.Semaphore(self._config.sessions)
        self._waiting = 0
        self.opened = 0
        """How many were opened in all."""
        self.reaped = 0
        """How many were closed because their client didn't ask any more."""

    @property
    def status(self) -> dict[str, Any]:
        """Numbers for who runs the server."""
        pool = self._factory.pool
        return {
            "open": len(self._open),
            "waiting": self._waiting,
            "opened": self.opened,
            "reaped": self.reaped,
            "most_open": self._config.sessions,
            "workers": pool.workers,
            "work_waiting": pool.waiting,
        }

    async def open(self, seed: object) -> TrainingSession:
        """Open the session that a seed names, in the order of the requests once there is room.

        Raises ``UsageError`` for an invalid seed and ``RequestRefused`` if there was no room for too long.
        """
        checked = parse_seed(seed)
        self._waiting += 1
        try:
            await asyncio.wait_for(self._places.acquire(), self._config.queue_s)
        except TimeoutError:
            raise RequestRefused(
                RefusalStatus.UNAVAILABLE,
                f"{self._config.sessions} sessions are open, and none was closed in {self._config.queue_s:g} s. Close "
                f"sessions that are done, or allow more: --sessions.",
                503,
            ) from None
        finally:
            self._waiting -= 1
        try:
            session = await run_in_threadpool(self._factory.open, checked)
        except BaseException:
            self._places.release()
            raise
        self._open[session.id] = _Open(session)
        self.opened += 1
        return session

    @contextmanager
    def in_use(self, session_id: str) -> Iterator[TrainingSession]:
        """Yield a session for the time of a request, in which it isn't closed for being idle.

        Raises ``RequestRefused`` for one that is no longer there.
        """
        held = self._open.get(session_id)
        if held is None:
            why = self._closed.get(session_id, "it is unknown here; a server that was restarted has no sessions")
            raise RequestRefused(
                RefusalStatus.CLOSED, f"The session {session_id[:60]!r} is lost: {why}. Nothing replaces it.", 410
            )
        held.requests += 1
        try:
            yield held.session
        finally:
            held.requests -= 1
            held.session.last_used = monotonic()

    def result(self, session_id: str) -> dict[str, Any] | None:
        """Return the document of a scored session that was closed; None if it isn't known."""
        return self._results.get(session_id)

    async def wait_until_settled(self, session: TrainingSession, seconds: float | None) -> bool:
        """Wait without a thread until nothing of a session is played, up to so many seconds; return whether it is."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notice() -> None:
            loop.call_soon_threadsafe(changed.set)

        end = None if seconds is None else loop.time() + seconds
        with session.notifying(notice):
            while not session.is_settled:
                left = None if end is None else end - loop.time()
                if left is not None and left <= 0:
                    return False
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except TimeoutError:
                    return session.is_settled
                changed.clear()
        return True

    async def act(
        self, session: TrainingSession, action: str, arguments: Mapping[str, Any], wait_s: float | None = None
    ) -> Outcome:
        """Have an action done, and wait for what it started up to so many seconds, by default the server's."""
        started = await run_in_threadpool(session.start, action, arguments)
        if started.waits:
            await self.wait_until_settled(session, self._config.wait_s if wait_s is None else wait_s)
        return await run_in_threadpool(session.outcome_of, started)

    async def step(self, session: TrainingSession, step: Mapping[str, Any], wait_s: float | None) -> Outcome:
        """Take a trainer's step: ``action`` with ``arguments``, or a model's ``text``, which may hold several actions.

        A refusal is an answer to the agent, and changes nothing.
        """
        outcomes = list[Outcome]()
        for action, arguments in actions_of(step):
            try:
                outcomes.append(await self.act(session, action, arguments, wait_s))
            except RequestRefused as refused:
                if session.closed:
                    raise
                outcomes.append(session.refusal_outcome(refused))
                break
        return join_outcomes(outcomes)

    def close(self, session_id: str, why: str) -> None:
        """Close a session, if it is open; ``why`` is the answer to later requests."""
        if (held := self._open.pop(session_id, None)) is None:
            return
        if held.session.done:
            _remember(self._results, session_id, held.session.document)
        held.session.close()
        _remember(self._closed, session_id, why)
        self._places.release()

    def reap(self) -> None:
        """Close the sessions whose clients haven't asked for too long."""
        now, idle_s = monotonic(), self._config.idle_s
        for session_id, held in list(self._open.items()):
            session = held.session
            if not held.requests and session.is_settled and now - session.last_used > idle_s:
                self.close(session_id, f"it was closed after {idle_s:g} s without a request")
                self.reaped += 1

    def close_all(self) -> None:
        """Close all sessions."""
        for session_id in list(self._open):
            self.close(session_id, "the server was stopped")


def _remember(kept: "OrderedDict[str, Any]", session_id: str, what: Any) -> None:  # noqa: ANN401 - of either kind
    kept[session_id] = what
    while len(kept) > MOST_REMEMBERED:
        kept.popitem(last=False)


def refusal_of(error: EvoPolicyGymError) -> tuple[str, int]:
    """Return an error's message and HTTP status."""
    if isinstance(error, RequestRefused):
        return str(error), error.http_status
    return str(error), 400 if isinstance(error, UsageError) else 500
