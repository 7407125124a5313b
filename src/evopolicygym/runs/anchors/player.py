"""Plays the policy of an anchor on cases of the public split, as any policy is played."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Self

from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Episode, Recording
from evopolicygym.core.spaces import Space, from_schema
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.judge.rollouts import Dealer
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor

REPEATING_POLICY = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return {action!r}
"""
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class PlayedAnchor:
    """Whole episodes of one policy, in the order of their cases."""

    episodes: tuple[Episode, ...]
    seconds: float
    """Of the clock, for all of them together."""


@dataclass(slots=True)
class AnchorPlayer(AbstractContextManager["AnchorPlayer"]):
    """Plays policies in one environment; its workers start when it is entered."""

    spec: EnvironmentSpec
    workers: int | None = None
    _place: TemporaryDirectory[str] = field(default_factory=TemporaryDirectory, init=False)
    _executor: LocalExecutor = field(init=False)
    _played: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        place = Path(self._place.name)
        self._executor = LocalExecutor(
            ExecutorConfig(self.spec, Limits(), AUTO, place / "workers", place / "log", self.workers)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()
        self._place.cleanup()

    @property
    def action_space(self) -> Space:
        """The environment's."""
        return from_schema(self._executor.grounds.action_schema)

    @property
    def playing(self) -> int:
        """How many episodes play at once."""
        return self._executor.grounds.workers

    def play(
        self, policy: Mapping[str, bytes], split: Split, cases: int, observe: Callable[[int], object]
    ) -> PlayedAnchor:
        """Return how a policy's files do on the first cases of a split; ``observe`` is called with how many are done.

        Raises ``UsageError`` where the policy failed.
        """
        self._played += 1
        directory = Path(self._place.name) / f"policy-{self._played}"
        directory.mkdir()
        for name, content in policy.items():
            (directory / name).write_bytes(content)
        jobs, grounds = _jobs(self.spec, split, cases), self._executor.grounds
        schemas = grounds.observation_schema, grounds.action_schema
        context = PolicyContext(self.spec.name, 0, cases, 0, self.spec.max_steps, *schemas)
        begun, found = perf_counter(), dict[int, Episode]()
        for job, episode in self._executor.play(directory, context, jobs, lambda _job, _why: None):
            if episode.failure:
                raise UsageError(
                    f"{self.spec.name}: a policy that holds its anchor failed in case {job.position}: "
                    f"{episode.failure.message}"
                )
            found[job.position] = episode
            observe(len(found))
        return PlayedAnchor(tuple(found[position] for position in sorted(found)), perf_counter() - begun)


def starter() -> dict[str, bytes]:
    """Return the files of the policy that every agent starts from, which plays uniformly at random."""
    system = files("evopolicygym.runs") / "workspace_template" / "system"
    return {file.name: file.read_bytes() for file in system.iterdir() if file.is_file()}


def repeating(action: Any) -> dict[str, bytes]:  # noqa: ANN401 - an action as JSON has it
    """Return the files of a policy that plays one action at every step."""
    return {"policy.py": REPEATING_POLICY.format(action=action).encode()}


def _jobs(spec: EnvironmentSpec, split: Split, cases: int) -> Sequence[Any]:
    dealer = Dealer(derive(PUBLIC_KEY, spec.name), PUBLIC_KEY, run_seed=0)
    return [dealer.job(split, index, index, None, Recording.OUTPUT) for index in range(cases)]
