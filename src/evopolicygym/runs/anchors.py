"""Anchors: mean returns of known policies, to hold scores against, measured in the sandbox that any policy plays in.

They are *random*, *idle*, *degenerate* and *reference*, the mean return of a policy that a person wrote, where there is
one. *Degenerate* is the action that, repeated, ends episodes early and gains by it, such as full throttle into a wall.
It can only gain where every step costs, so it is looked for where random play and the idle action both have returns
below zero. What is tried is each value of a Discrete, and of a Box each element at each of its bounds, and all of them
at once.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Self

import numpy as np

from evopolicygym import references
from evopolicygym.core.cases import PUBLIC_KEY, SIZES, Split, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, Recording
from evopolicygym.core.score import estimate, total
from evopolicygym.core.spaces import Box, Discrete, Space, from_schema
from evopolicygym.core.task import Anchor, EnvironmentSpec, Limits, PolicyContext
from evopolicygym.judge.rollouts import EpisodeJobBuilder
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
MOST_ACTIONS = 64
TRIED, COMPARED = 1, 16
"""Cases on which each action is tried, and those on which the ones that end episodes are compared. They are of
validation, so that what is measured on held-out cases was not chosen by them."""
FEWEST, CASES = 2, SIZES[Split.HELD_OUT]
"""Held-out cases of which a standard error can be known, and those that an anchor is measured on by default: all."""


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
        self,
        policy: Mapping[str, bytes],
        split: Split,
        cases: int,
        observe: Callable[[int], object] = lambda _done: None,
        key: bytes = PUBLIC_KEY,
    ) -> PlayedAnchor:
        """Return how a policy's files do on the first cases of a split; ``observe`` is called with how many are done.

        ``key`` draws a world's parameters; the cases are always the published ones.

        Raises ``UsageError`` where the policy failed.
        """
        self._played += 1
        directory = Path(self._place.name) / f"policy-{self._played}"
        jobs = deal_jobs(EpisodeJobBuilder(derive(PUBLIC_KEY, self.spec.name), key, run_seed=0), split, cases)
        begun, found = perf_counter(), list[Episode]()
        for episode in play_policy(self._executor, self.spec, directory, policy, jobs):
            found.append(episode)
            observe(len(found))
        return PlayedAnchor(tuple(found), perf_counter() - begun)


def play_policy(
    executor: Executor, spec: EnvironmentSpec, directory: Path, policy: Mapping[str, bytes], jobs: Sequence[EpisodeJob]
) -> Iterator[Episode]:
    """Yield the episodes of a policy's files, which are laid into a new directory, in the order of their positions.

    Raises ``UsageError`` where the policy failed.
    """
    directory.mkdir()
    for name, content in policy.items():
        (directory / name).write_bytes(content)
    schemas = executor.grounds.observation_schema, executor.grounds.action_schema
    context = PolicyContext(spec.name, 0, len(jobs), 0, spec.max_steps, *schemas)
    waiting, due = dict[int, Episode](), 0
    for job, episode in executor.play(directory, context, jobs, lambda _job, _why: None):
        if episode.failure:
            raise UsageError(
                f"{spec.name}: a policy that holds its anchor failed in case {job.position}: {episode.failure.message}"
            )
        waiting[job.position] = episode
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def measure_world_anchors(
    executor: Executor, spec: EnvironmentSpec, job_builder: EpisodeJobBuilder, cases: int
) -> EnvironmentSpec:
    """Return an environment in a world with its anchors there, measured on the first held-out cases of a run.

    They are random play, the idle action and the reference policy of the standard world, where there is one; what fails
    in this world has none. The same run in the same experiment finds the same, as ``job_builder`` deals the cases.
    """
    jobs = deal_jobs(job_builder, Split.HELD_OUT, cases)
    policies = {AnchorKind.RANDOM: starter_policy(), AnchorKind.IDLE: repeating_policy(spec.idle_action)}
    if spec.name in references.names():
        policies[AnchorKind.REFERENCE] = references.files_of(spec.name)
    found: dict[AnchorKind, Anchor] = {}
    with TemporaryDirectory(prefix="evopolicygym-anchors-") as place:
        for kind, policy in policies.items():
            with suppress(UsageError):
                episodes = tuple(play_policy(executor, spec, Path(place, kind.value), policy, jobs))
                found[kind] = _anchor(PlayedAnchor(episodes, 0.0), 1).anchor
    return replace(
        spec,
        random_anchor=found.get(AnchorKind.RANDOM),
        idle_anchor=found.get(AnchorKind.IDLE),
        reference_anchor=found.get(AnchorKind.REFERENCE),
    )


def starter_policy() -> dict[str, bytes]:
    """Return the files of the policy that every agent starts from, which plays uniformly at random."""
    system = files("evopolicygym.runs") / "workspace_template" / "system"
    return {file.name: file.read_bytes() for file in system.iterdir() if file.is_file()}


def repeating_policy(action: Any) -> dict[str, bytes]:  # noqa: ANN401 - an action as JSON has it
    """Return the files of a policy that plays one action at every step."""
    return {"policy.py": REPEATING_POLICY.format(action=action).encode()}


def deal_jobs(job_builder: EpisodeJobBuilder, split: Split, cases: int) -> list[EpisodeJob]:
    """Return the jobs that play the first cases of a split and write nothing down."""
    return [job_builder.job(split, index, index, None, Recording.OUTPUT) for index in range(cases)]


def find_early_ending(player: AnchorPlayer, observe: Callable[[str], object]) -> Any | None:  # noqa: ANN401 - an action as JSON has it
    """Return the action whose repetition ends episodes early and gains by it; None where there is none.

    It has to return more than random play and the idle action do on the same cases; ``observe`` is called with what is
    tried.
    """
    idle, found = player.spec.idle_action, []
    for action in islice(candidates(player.action_space, idle), MOST_ACTIONS):
        observe(f"repeating {action}")
        if _ends_early(_play_validation(player, repeating_policy(action), TRIED)):
            found.append(action)
    if not found:
        return None
    known = max(
        _mean_return(_play_validation(player, policy, COMPARED))
        for policy in (starter_policy(), repeating_policy(idle))
    )
    played = [(action, _play_validation(player, repeating_policy(action), COMPARED)) for action in found]
    means = [(_mean_return(episodes), action) for action, episodes in played if _ends_early(episodes)]
    best, action = max(means, key=lambda item: item[0], default=(known, None))
    return action if best > known else None


def candidates(space: Space, idle: Any) -> Iterator[Any]:  # noqa: ANN401 - an action as JSON has it
    """Yield the actions that are tried, as JSON has them, the idle one aside; none of other spaces than these two."""
    match space:
        case Discrete():
            yield from (value for value in range(space.start, space.start + space.n) if value != idle)
        case Box() if np.dtype(space.dtype).kind == "f":
            low, high = space.limits()
            for bound in (low, high):
                if np.isfinite(bound).all():
                    yield bound.tolist()
            at_rest = np.asarray(idle, float)
            for place in np.ndindex(*space.shape):
                for bound in (low, high):
                    if np.isfinite(bound[place]) and bound[place] != at_rest[place]:
                        action = at_rest.copy()
                        action[place] = bound[place]
                        yield action.tolist()


def _play_validation(player: AnchorPlayer, policy: Mapping[str, bytes], cases: int) -> tuple[Episode, ...]:
    return player.play(policy, Split.VALIDATION, cases, lambda _: None).episodes


def _mean_return(episodes: tuple[Episode, ...]) -> float:
    return estimate([episode.episode_return for episode in episodes]).mean


def _ends_early(episodes: tuple[Episode, ...]) -> bool:
    """Return whether most episodes terminated, and did so by no success."""
    ended = sum(episode.terminated and not episode.success for episode in episodes)
    return 2 * ended > len(episodes)


class AnchorKind(StrEnum):
    """Whose mean return an anchor is."""

    RANDOM = "random"
    """Uniform random actions."""
    IDLE = "idle"
    """The idle action at every step."""
    DEGENERATE = "degenerate"
    """The action that, repeated, ends episodes early, where that pays."""
    REFERENCE = "reference"
    """The policy that a person wrote (``references/``), where there is one."""


@dataclass(frozen=True, slots=True)
class MeasuredAnchor:
    """An anchor, with what its episodes took."""

    anchor: Anchor
    mean_steps: float
    seconds: float
    """That an episode takes on one core, as it was measured: with what else the machine had to do."""


@dataclass(frozen=True, slots=True)
class MeasuredAnchors:
    """The anchors of one environment that were measured, by kind."""

    spec: EnvironmentSpec
    by_kind: Mapping[AnchorKind, MeasuredAnchor]
    degenerate_policy: str = ""
    """What the degenerate policy does, in a few words; empty where none was found to pay."""


def measure_anchors(
    spec: EnvironmentSpec,
    cases: int = CASES,
    kinds: Collection[AnchorKind] | None = None,
    workers: int | None = None,
    observe: Callable[[str, int], object] = lambda _what, _done: None,
) -> MeasuredAnchors:
    """Measure anchors on the first held-out cases of the public split; ``observe`` is called with what is played.

    Of no kinds at all it measures each that there is. For ``degenerate`` random play and the idle action are measured
    too; it is looked for where both are below zero. Raises ``UsageError`` where there are not so many cases, or so few
    that no standard error can be known, and where a reference is asked for that there is not.
    """
    if not FEWEST <= cases <= CASES:
        raise UsageError(f"Invalid number of cases: expected {FEWEST} to {CASES}, got {cases}.")
    wanted = _wanted(spec, kinds)
    reference = references.files_of(spec.name) if AnchorKind.REFERENCE in wanted else {}
    found: dict[AnchorKind, MeasuredAnchor] = {}
    said = ""
    with AnchorPlayer(spec, workers) as player:

        def play(kind: AnchorKind, policy: Mapping[str, bytes]) -> None:
            played = player.play(policy, Split.HELD_OUT, cases, lambda done: observe(kind.value, done))
            found[kind] = _anchor(played, player.playing)

        if AnchorKind.RANDOM in wanted:
            play(AnchorKind.RANDOM, starter_policy())
        if AnchorKind.IDLE in wanted:
            play(AnchorKind.IDLE, repeating_policy(spec.idle_action))
        if AnchorKind.DEGENERATE in wanted and max(measured.anchor.mean for measured in found.values()) < 0:
            action = find_early_ending(player, lambda what: observe(what, 0))
            if action is not None:
                said = f"repeats the action {action}"
                play(AnchorKind.DEGENERATE, repeating_policy(action))
        if reference:
            play(AnchorKind.REFERENCE, reference)
    return MeasuredAnchors(spec, found, said)


def measure_repeated(spec: EnvironmentSpec, action: Any, cases: int = CASES) -> Anchor:  # noqa: ANN401 - as JSON has it
    """Return the anchor of the policy that plays one action at every step."""
    with AnchorPlayer(spec) as player:
        played = player.play(repeating_policy(action), Split.HELD_OUT, cases, lambda _: None)
        return _anchor(played, player.playing).anchor


def _wanted(spec: EnvironmentSpec, kinds: Collection[AnchorKind] | None) -> set[AnchorKind]:
    """Return the kinds to measure, those aside that there are only for some environments and nobody asked for."""
    if kinds is None:
        return set(AnchorKind) - (set() if spec.name in references.names() else {AnchorKind.REFERENCE})
    needed = {AnchorKind.RANDOM, AnchorKind.IDLE} if AnchorKind.DEGENERATE in kinds else set()
    return {*kinds, *needed}


def _anchor(played: PlayedAnchor, playing: int) -> MeasuredAnchor:
    episodes = played.episodes
    known = [episode.success for episode in episodes if episode.success is not None]
    mean = estimate(sorted(episode.episode_return for episode in episodes))
    return MeasuredAnchor(
        Anchor(mean.mean, mean.standard_error or 0.0, mean.count, sum(known) / len(known) if known else None),
        total([episode.length for episode in episodes]) / len(episodes),
        played.seconds * min(playing, len(episodes)) / len(episodes),
    )
