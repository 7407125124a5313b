"""Anchors: mean returns of known policies for comparison with scores, measured in the same sandbox as any policy.

The anchors are *random*, *idle*, *degenerate* and *reference*, a hand-written policy that some environments have. The
*degenerate* policy repeats an action that ends episodes early and gains by it, such as full throttle into a wall. That
pays only if every step costs, so it is searched for only if random play and the idle action both have returns below
zero. The search tries each value of a Discrete space; for a Box, each element at each bound, and all elements at once.
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

from evopolicygym.agents.kit import reference_policies
from evopolicygym.core.cases import PUBLIC_KEY, SIZES, Split, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, Recording, Rollout
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
MAX_ACTIONS = 64
TRIAL_CASES, COMPARISON_CASES = 1, 16
"""Validation cases for trying each action, and for comparing those that end episodes. Held-out cases are only for
measuring."""
MIN_CASES, CASES = 2, SIZES[Split.HELD_OUT]
"""The fewest held-out cases with a standard error, and the default: all."""


@dataclass(frozen=True, slots=True)
class PlayedAnchor:
    """Complete episodes of a policy in the order of their cases."""

    episodes: tuple[Episode, ...]
    seconds: float
    """Wall time of all episodes together."""


@dataclass(slots=True)
class AnchorPlayer(AbstractContextManager["AnchorPlayer"]):
    """Plays policies in an environment; its workers start when the context is entered."""

    spec: EnvironmentSpec
    workers: int | None = None
    _scratch: TemporaryDirectory[str] = field(default_factory=TemporaryDirectory, init=False)
    _executor: LocalExecutor = field(init=False)
    _played: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        directory_path = Path(self._scratch.name)
        self._executor = LocalExecutor(
            ExecutorConfig(self.spec, Limits(), AUTO, directory_path / "workers", directory_path / "log", self.workers)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()
        self._scratch.cleanup()

    @property
    def action_space(self) -> Space:
        """The environment's action space."""
        return from_schema(self._executor.info.action_schema)

    @property
    def playing(self) -> int:
        """How many episodes play at once."""
        return self._executor.info.workers

    def play(
        self,
        policy: Mapping[str, bytes],
        split: Split,
        cases: int,
        observe: Callable[[int], object] = lambda _done: None,
        key: bytes = PUBLIC_KEY,
    ) -> PlayedAnchor:
        """Play a policy's files on the first cases of a split; ``observe`` is called with the number of episodes done.

        The cases are always the published ones; ``key`` only draws a world's parameters. Raises ``UsageError`` if the
        policy fails.
        """
        self._played += 1
        directory = Path(self._scratch.name) / f"policy-{self._played}"
        jobs = build_jobs(EpisodeJobBuilder(derive(PUBLIC_KEY, self.spec.name), key, run_seed=0), split, cases)
        start, episodes = perf_counter(), list[Episode]()
        for episode in play_policy(self._executor, self.spec, directory, policy, jobs):
            episodes.append(episode)
            observe(len(episodes))
        return PlayedAnchor(tuple(episodes), perf_counter() - start)


def play_policy(
    executor: Executor, spec: EnvironmentSpec, directory: Path, policy: Mapping[str, bytes], jobs: Sequence[EpisodeJob]
) -> Iterator[Episode]:
    """Write a policy's files into a new directory and yield its episodes in the order of their positions.

    Raises ``UsageError`` if the policy fails.
    """
    directory.mkdir()
    for name, content in policy.items():
        (directory / name).write_bytes(content)
    schemas = executor.info.observation_schema, executor.info.action_schema
    context = PolicyContext(spec.name, 0, len(jobs), 0, spec.max_steps, *schemas)
    waiting, due = dict[int, Episode](), 0
    for _, job, episode in executor.play([Rollout(directory, context, jobs)], lambda *_: None):
        if episode.failure:
            raise UsageError(
                f"{spec.name}: the policy of an anchor failed in case {job.position}: {episode.failure.message}"
            )
        waiting[job.position] = episode
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def measure_world_anchors(
    executor: Executor, spec: EnvironmentSpec, job_builder: EpisodeJobBuilder, cases: int
) -> EnvironmentSpec:
    """Return an environment in a world with its anchors, measured on the first held-out cases of a run.

    The policies are random play, the idle action and the standard world's reference policy, if any. A policy that fails
    in this world has no anchor. Runs with the same cases in ``job_builder`` get the same anchors.
    """
    jobs = build_jobs(job_builder, Split.HELD_OUT, cases)
    policies = {AnchorKind.RANDOM: starter_policy(), AnchorKind.IDLE: repeating_policy(spec.idle_action)}
    if spec.name in reference_policies.names():
        policies[AnchorKind.REFERENCE] = reference_policies.files_of(spec.name)
    anchors: dict[AnchorKind, Anchor] = {}
    with TemporaryDirectory(prefix="evopolicygym-anchors-") as directory_path:
        for kind, policy in policies.items():
            with suppress(UsageError):
                episodes = tuple(play_policy(executor, spec, Path(directory_path, kind.value), policy, jobs))
                anchors[kind] = _anchor(PlayedAnchor(episodes, 0.0), 1).anchor
    return replace(
        spec,
        random_anchor=anchors.get(AnchorKind.RANDOM),
        idle_anchor=anchors.get(AnchorKind.IDLE),
        reference_anchor=anchors.get(AnchorKind.REFERENCE),
    )


def starter_policy() -> dict[str, bytes]:
    """Return the files of the starter policy, which plays uniformly at random."""
    system = files("evopolicygym.runs") / "workspace_template" / "system"
    return {file.name: file.read_bytes() for file in system.iterdir() if file.is_file()}


def repeating_policy(action: Any) -> dict[str, bytes]:  # noqa: ANN401 - an action as JSON has it
    """Return the files of a policy that repeats an action."""
    return {"policy.py": REPEATING_POLICY.format(action=action).encode()}


def build_jobs(job_builder: EpisodeJobBuilder, split: Split, cases: int) -> list[EpisodeJob]:
    """Return the jobs that play the first cases of a split without recording steps."""
    return [job_builder.job(split, index, index, None, Recording.OUTPUT) for index in range(cases)]


def find_early_ending(player: AnchorPlayer, observe: Callable[[str], object]) -> Any | None:  # noqa: ANN401 - an action as JSON has it
    """Return the action whose repetition ends episodes early and pays best; None if there is none.

    Its mean return must exceed those of random play and the idle action on the same cases. ``observe`` is called with a
    description of each trial.
    """
    idle, candidates = player.spec.idle_action, []
    for action in islice(candidate_actions(player.action_space, idle), MAX_ACTIONS):
        observe(f"repeating {action}")
        if _ends_early(_play_validation(player, repeating_policy(action), TRIAL_CASES)):
            candidates.append(action)
    if not candidates:
        return None
    known = max(
        _mean_return(_play_validation(player, policy, COMPARISON_CASES))
        for policy in (starter_policy(), repeating_policy(idle))
    )
    played = [(action, _play_validation(player, repeating_policy(action), COMPARISON_CASES)) for action in candidates]
    means = [(_mean_return(episodes), action) for action, episodes in played if _ends_early(episodes)]
    best, action = max(means, key=lambda item: item[0], default=(known, None))
    return action if best > known else None


def candidate_actions(space: Space, idle: Any) -> Iterator[Any]:  # noqa: ANN401 - an action as JSON has it
    """Yield the actions to try, as JSON, without the idle action; none for spaces other than Discrete and Box."""
    match space:
        case Discrete():
            yield from (value for value in range(space.start, space.start + space.n) if value != idle)
        case Box() if np.dtype(space.dtype).kind == "f":
            low, high = space.limits()
            for bound in (low, high):
                if np.isfinite(bound).all():
                    yield bound.tolist()
            idle_action = np.asarray(idle, float)
            for directory_path in np.ndindex(*space.shape):
                for bound in (low, high):
                    if np.isfinite(bound[directory_path]) and bound[directory_path] != idle_action[directory_path]:
                        action = idle_action.copy()
                        action[directory_path] = bound[directory_path]
                        yield action.tolist()


def _play_validation(player: AnchorPlayer, policy: Mapping[str, bytes], cases: int) -> tuple[Episode, ...]:
    return player.play(policy, Split.VALIDATION, cases, lambda _: None).episodes


def _mean_return(episodes: tuple[Episode, ...]) -> float:
    return estimate([episode.episode_return for episode in episodes]).mean


def _ends_early(episodes: tuple[Episode, ...]) -> bool:
    """Return whether most episodes terminated without success."""
    ended = sum(episode.terminated and not episode.success for episode in episodes)
    return 2 * ended > len(episodes)


class AnchorKind(StrEnum):
    """Whose mean return an anchor is."""

    RANDOM = "random"
    """Uniform random actions."""
    IDLE = "idle"
    """The idle action at every step."""
    DEGENERATE = "degenerate"
    """Repeating an action that ends episodes early, if that pays."""
    REFERENCE = "reference"
    """The hand-written policy in ``references/``, if there is one."""


@dataclass(frozen=True, slots=True)
class MeasuredAnchor:
    """An anchor and the cost of its episodes."""

    anchor: Anchor
    mean_steps: float
    seconds: float
    """Measured seconds of an episode on one core; other load on the machine adds to it."""


@dataclass(frozen=True, slots=True)
class MeasuredAnchors:
    """Measured anchors of an environment by kind."""

    spec: EnvironmentSpec
    by_kind: Mapping[AnchorKind, MeasuredAnchor]
    degenerate_policy: str = ""
    """A short description of the degenerate policy; empty if none pays."""


def measure_anchors(
    spec: EnvironmentSpec,
    cases: int = CASES,
    kinds: Collection[AnchorKind] | None = None,
    workers: int | None = None,
    observe: Callable[[str, int], object] = lambda _what, _done: None,
) -> MeasuredAnchors:
    """Measure anchors on the first held-out cases of the public split; ``observe`` is called with the progress.

    ``kinds`` defaults to all that the environment has. The degenerate policy needs random play and the idle action,
    which are then measured too. Raises ``UsageError`` for an invalid number of cases or a missing reference policy.
    """
    if not MIN_CASES <= cases <= CASES:
        raise UsageError(f"Invalid number of cases: expected {MIN_CASES} to {CASES}, got {cases}.")
    wanted = _resolve_kinds(spec, kinds)
    reference = reference_policies.files_of(spec.name) if AnchorKind.REFERENCE in wanted else {}
    anchors: dict[AnchorKind, MeasuredAnchor] = {}
    description = ""
    with AnchorPlayer(spec, workers) as player:

        def play(kind: AnchorKind, policy: Mapping[str, bytes]) -> None:
            played = player.play(policy, Split.HELD_OUT, cases, lambda done: observe(kind.value, done))
            anchors[kind] = _anchor(played, player.playing)

        if AnchorKind.RANDOM in wanted:
            play(AnchorKind.RANDOM, starter_policy())
        if AnchorKind.IDLE in wanted:
            play(AnchorKind.IDLE, repeating_policy(spec.idle_action))
        if AnchorKind.DEGENERATE in wanted and max(measured.anchor.mean for measured in anchors.values()) < 0:
            action = find_early_ending(player, lambda what: observe(what, 0))
            if action is not None:
                description = f"repeats the action {action}"
                play(AnchorKind.DEGENERATE, repeating_policy(action))
        if reference:
            play(AnchorKind.REFERENCE, reference)
    return MeasuredAnchors(spec, anchors, description)


def measure_repeated(spec: EnvironmentSpec, action: Any, cases: int = CASES) -> Anchor:  # noqa: ANN401 - as JSON has it
    """Return the anchor of the policy that repeats an action."""
    with AnchorPlayer(spec) as player:
        played = player.play(repeating_policy(action), Split.HELD_OUT, cases, lambda _: None)
        return _anchor(played, player.playing).anchor


def _resolve_kinds(spec: EnvironmentSpec, kinds: Collection[AnchorKind] | None) -> set[AnchorKind]:
    """Return the kinds to measure: all that the environment has, or ``kinds`` and those that they need."""
    if kinds is None:
        return set(AnchorKind) - (set() if spec.name in reference_policies.names() else {AnchorKind.REFERENCE})
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
