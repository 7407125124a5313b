"""Random episodes of an environment under check, each of another seed, recorded as a run records them."""

import math
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evopolicygym.core.rollout import Recording
from evopolicygym.core.spaces import InvalidAction, Space, to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import mismatch
from evopolicygym.environments.trace import Step, random_steps
from evopolicygym.records.trajectories import EpisodeFiles, write_episode
from evopolicygym.rollout.episode import Recorder
from evopolicygym.rollout.guest import layout

SEED = 20260702
"""Of the first episode; the others have the next ones."""
_MOST_BYTES = 1 << 28
"""Bytes of observations that are held of an episode."""
_SHOWN = 120
"""Characters of a value in a finding."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Limits of random episodes."""

    episodes: int
    """Most episodes."""
    enough: tuple[int, int]
    """Episodes and steps, after both of which no further episode begins."""
    steps: int
    """Most steps of an episode."""
    episode_s: float
    """Most seconds of an episode."""
    seconds: float
    """Seconds after which no further episode begins, and of all episodes but the first."""


WHOLE = Extent(episodes=20, enough=(3, 200), steps=20_000, episode_s=4.0, seconds=8.0)
QUICK = Extent(episodes=1, enough=(1, 0), steps=200, episode_s=1.0, seconds=1.0)
"""Before a run."""


@dataclass(slots=True)
class RandomEpisode:
    """One episode."""

    seed: int
    digests: list[bytes] = field(default_factory=list)
    """After the reset, and after each step."""
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        """Steps played."""
        return len(self.digests) - 1

    def is_like(self, other: "RandomEpisode") -> bool:
        """Return whether two episodes are the same as far as both were played."""
        return all(own == others for own, others in zip(self.digests, other.digests, strict=False))


@dataclass(slots=True)
class RandomEpisodes:
    """Results of all episodes. Of each kind of fault, the first is kept."""

    observation_space: Space = field(init=False)
    action_space: Space = field(init=False)
    idle_error: str = ""
    episodes: list[RandomEpisode] = field(default_factory=list)
    mismatch: str = ""
    """How an observation violates its space, and where."""
    odd_reward: str = ""
    """The first reward that isn't finite, and where."""
    unrecorded: str = ""
    """Why a run could not record an episode."""
    keys: dict[str, Any] = field(default_factory=dict)
    """The keys of ``info`` after steps, each with its last value."""
    terminated: bool = False
    """Whether an episode terminated."""

    @property
    def steps(self) -> int:
        """Steps of all episodes."""
        return sum(episode.steps for episode in self.episodes)

    @property
    def seconds(self) -> float:
        """Seconds of all steps."""
        return sum(episode.seconds for episode in self.episodes)

    @property
    def longest(self) -> RandomEpisode:
        """The first of the longest episodes."""
        return max(self.episodes, key=lambda episode: episode.steps)


class _Recording:
    """An episode as a run records it, up to the first error."""

    def __init__(self, environment: Environment, most_steps: int) -> None:
        observations, actions = to_schema(environment.observation_space), to_schema(environment.action_space)
        frame = bytearray(layout.size(observations, wide=False))
        self.most_steps = min(most_steps, environment.spec.max_steps, max(1, _MOST_BYTES // max(1, len(frame))))
        """Steps that there is room for."""
        self._environment = environment
        self._write = layout.bind(observations, frame, wide=False).write
        self._recorder = Recorder(frame, 0, observations, actions, self.most_steps)
        self._last: Step | None = None
        self.error = ""

    def add(self, step: Step) -> None:
        """Record a step, or the reset."""
        if self.error:
            return
        try:
            self._write(step.observation)
            if step.action is None:
                self._recorder.start()
            else:
                self._recorder.add(step.action, step.reward, step.info)
                self._last = step
        except Exception as error:  # noqa: BLE001 - whatever a simulator's values cause is the finding
            self.error = _error_line(error)

    def save(self) -> None:
        """Write the episode's files as a run does."""
        if self.error or self._last is None:
            return
        components = self._environment.spec.reward_components
        ending = {"terminated": self._last.terminated, "truncated": self._last.truncated}
        try:
            self._recorder.component_sums(components)
            self._environment.success(self._recorder.episode_return, ending["terminated"], self._last.info)
            files = EpisodeFiles(self._recorder.trajectory(**ending), b"", b"", None, components)
            with TemporaryDirectory() as directory:
                write_episode(Path(directory, "episode"), files, Recording.TRAJECTORY)
        except Exception as error:  # noqa: BLE001 - as above
            self.error = _error_line(error)


def play_random(spec: EnvironmentSpec, extent: Extent) -> RandomEpisodes:
    """Play random episodes within an extent. Exceptions of the simulator are passed on, with a note of the step."""
    played, start = RandomEpisodes(), time.perf_counter()
    deadline = start + extent.episode_s
    for seed in range(SEED, SEED + extent.episodes):
        with closing(Environment(spec)) as environment:
            _play(environment, seed, deadline, extent.steps, played)
        fewest_episodes, fewest_steps = extent.enough
        now = time.perf_counter()
        is_enough = len(played.episodes) >= fewest_episodes and played.steps >= fewest_steps
        if is_enough or now > start + extent.seconds:
            break
        deadline = min(now + extent.episode_s, start + extent.seconds)
    return played


def _play(environment: Environment, seed: int, deadline: float, most_steps: int, played: RandomEpisodes) -> None:
    """Play one episode and add it to the results."""
    episode, steps = RandomEpisode(seed), random_steps(environment, seed)
    try:
        reset = next(steps)  # which may replace the spaces
        if not played.episodes:
            played.observation_space, played.action_space = environment.observation_space, environment.action_space
            played.idle_error = _idle_error(environment)
        recording = _Recording(environment, most_steps)
        _look_at(environment, reset, episode, played, recording)
        before = time.perf_counter()
        for step in islice(steps, recording.most_steps):
            episode.seconds += time.perf_counter() - before
            _look_at(environment, step, episode, played, recording)
            before = time.perf_counter()
            if before > deadline:
                break
    except Exception as error:
        error.add_note(f"at step {len(episode.digests)} of the episode of seed {seed}")
        raise
    recording.save()
    if recording.error:
        played.unrecorded = played.unrecorded or f"{recording.error}, in the episode of seed {seed}"
    played.episodes.append(episode)


def _look_at(
    environment: Environment, step: Step, episode: RandomEpisode, played: RandomEpisodes, recording: _Recording
) -> None:
    episode.digests.append(step.digest)
    where = f"at step {episode.steps} of the episode of seed {episode.seed}"
    space = environment.simulator.observation_space
    if not played.mismatch and (fault := mismatch(space, step.observation)):
        played.mismatch = f"{fault}, {where}"
    if not played.odd_reward and not math.isfinite(step.reward):
        played.odd_reward = f"{step.reward} {where}"
    if step.action is not None:
        played.keys |= step.info
    played.terminated = played.terminated or step.terminated
    recording.add(step)


def _idle_error(environment: Environment) -> str:
    try:
        environment.idle_action  # noqa: B018 - reading it validates it
    except InvalidAction as error:
        return str(error)
    return ""


def _error_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
