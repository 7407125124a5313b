"""Plays and records one episode: the environment steps in this process, the policy acts in the sandbox.

If the policy fails, the uniform-random anchor plays the episode to its end, with random numbers that the case seeds.
Exceptions of the environment on valid actions are passed on to the caller.
"""

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np

from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.interface import BoundInterface, shown_info, shown_spec
from evopolicygym.core.rollout import ATTEMPTS, MOST_PRINTED, Episode, EpisodeJob, Failure, FailureReason, Trial
from evopolicygym.core.spaces import InvalidAction, action_reader, from_schema, sample, with_small_integers
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.environments.environment import Environment, PlayedEnvironment, play_through
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, escape_output, write_episode
from evopolicygym.rollout.guest import layout
from evopolicygym.rollout.policy_monitor import Watchdog
from evopolicygym.rollout.policy_process import PolicyFailed, PolicyOutput, PolicyProcess, load_error
from evopolicygym.rollout.zygote import Zygote


class Recorder:
    """Records an episode as flat bytes in preallocated rows, with one copy per step.

    Nothing is encoded during the episode. ``records/trajectories.py`` writes the result.
    """

    def __init__(
        self, frame: bytearray, offset: int, obs_space: dict[str, Any], action_space: dict[str, Any], max_steps: int
    ) -> None:
        """``frame`` holds the current observation at ``offset``: it is the frame that is sent to the policy."""
        self._schemas = obs_space, action_space
        self._frame = np.frombuffer(frame, np.uint8)[offset:]
        # Unused rows cost no memory: the system allocates pages on their first write.
        self._observations = np.empty((max_steps + 1, len(self._frame)), np.uint8)
        self._actions, typed = layout.rows(action_space, max_steps)
        self._store_action = self._byte_writer(action_space) if typed is None else typed.__setitem__
        self._rewards = np.empty(max_steps, np.float64)
        self._infos: list[dict[str, Any]] = []
        self.clipped: list[int] = []
        """Steps whose action was clipped."""
        self.length = 0
        """Steps played."""

    def start(self) -> None:
        """Record the observation of the reset."""
        self._observations[0] = self._frame

    def add(self, action: Any, reward: float, info: dict[str, Any]) -> None:  # noqa: ANN401 - of any space
        """Record a step and the observation after it, which is read from the frame."""
        step = self.length
        self._store_action(step, action)
        self._rewards[step] = reward
        self._infos.append(info)
        self.length = step = step + 1
        self._observations[step] = self._frame

    def _byte_writer(self, action_space: dict[str, Any]) -> Callable[[int, Any], None]:
        """Return a function that stores an action of a composite space, through its bytes."""
        action = bytearray(layout.size(action_space, wide=False))
        write, action_bytes, rows = (
            layout.bind(action_space, action, wide=False).write,
            np.frombuffer(action, np.uint8),
            self._actions,
        )

        def store(step: int, value: Any) -> None:  # noqa: ANN401 - of any space
            write(value)
            rows[step] = action_bytes

        return store

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of the rewards so far, exactly rounded."""
        return math.fsum(self._rewards[: self.length].tolist())

    def component_sums(self, names: tuple[str, ...]) -> dict[str, float]:
        """Return the sums of the named entries of ``info``; steps that lack one count as 0."""
        return {name: math.fsum(float(info.get(name, 0.0)) for info in self._infos) for name in names}

    def trajectory(self, *, terminated: bool, truncated: bool) -> Trajectory:
        """Return the recorded trajectory."""
        steps = self.length
        return Trajectory(
            observations=layout.columns(self._schemas[0], self._observations[: steps + 1]),
            actions=layout.columns(self._schemas[1], self._actions[:steps]),
            rewards=self._rewards[:steps],
            infos=self._infos,
            clipped=frozenset(self.clipped),
            terminated=terminated,
            truncated=truncated,
        )

    def digest(self, *, terminated: bool, truncated: bool) -> str:
        """Return the SHA-256 that names this trajectory, in hexadecimal."""
        steps, total = self.length, hashlib.sha256(b"evopolicygym trajectory 1")
        for rows in (self._observations[: steps + 1], self._actions[:steps], self._rewards[:steps]):
            total.update(np.ascontiguousarray(rows).data)
        total.update(bytes((terminated, truncated)))
        return total.hexdigest()


Answer = Callable[[], tuple[Any, bool]]
"""Chooses the next action; returns it and whether it was clipped."""

SIMULATOR_FAILED = (
    f"the simulator failed each of {ATTEMPTS} times on this policy's actions, which their space leaves without bounds; "
    f"the anchor played the episode from its start"
)


BROKE_SIMULATOR = Failure(FailureReason.INVALID_ACTION, SIMULATOR_FAILED)
NO_OUTPUT = PolicyOutput(b"", b"")


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an episode."""

    terminated: bool
    truncated: bool
    info: dict[str, Any]


def play_episode(
    spec: EnvironmentSpec,
    zygote: Zygote,
    context: PolicyContext,
    limits: Limits,
    watchdog: Watchdog,
    job: EpisodeJob,
    interface: BoundInterface | None = None,
) -> Episode:
    """Play one case with the installed checkpoint, and write its files to the job's directory, if any."""
    start = perf_counter()
    policy = PolicyProcess(zygote, context, limits, watchdog, job.position, job.policy_seed, job.most_s)
    whole: Failure | None = None
    try:
        with closing(play_through(Environment(spec, job.world_seed), interface)) as environment:
            recorder, ending, failure = _play(environment, policy, context, job, watchdog)
        act_seconds = None if failure else policy.mean_act_s
    except PolicyFailed as failed:
        whole = failed.failure
    finally:
        output = policy.end()
    if whole:
        return play_without_policy(spec, context, watchdog, job, interface, whole, output)
    seconds = perf_counter() - start
    episode = _finish_episode(environment, recorder, ending, failure, output, job, seconds, interface)
    return replace(episode, act_seconds=None if act_seconds is None else round(act_seconds, 7))


def play_without_policy(
    spec: EnvironmentSpec,
    context: PolicyContext,
    watchdog: Watchdog,
    job: EpisodeJob,
    interface: BoundInterface | None = None,
    failure: Failure = BROKE_SIMULATOR,
    output: PolicyOutput = NO_OUTPUT,
) -> Episode:
    """Have the anchor play a whole case, for a policy's failure that counts from the start."""
    start = perf_counter()
    frame = bytearray(layout.size(context.obs_space, wide=False))
    write = layout.bind(context.obs_space, frame, wide=False).write
    with closing(play_through(Environment(spec, job.world_seed), interface)) as environment:
        recorder = _start_recording(environment, frame, 0, write, context, job)
        ending = _play_steps(environment, write, recorder, _random_actions(environment, job.seed, watchdog))
    seconds = perf_counter() - start
    return _finish_episode(environment, recorder, ending, failure, output, job, seconds, interface)


def _finish_episode(
    environment: PlayedEnvironment,
    recorder: Recorder,
    ending: Ending,
    failure: Failure | None,
    output: PolicyOutput,
    job: EpisodeJob,
    seconds: float,
    interface: BoundInterface | None,
) -> Episode:
    """Write the episode's files to the job's directory, if any, and return the episode."""
    spec = environment.spec
    if not isfinite(recorder.episode_return):
        raise EnvironmentFault(f"{spec.id} returned rewards that are not finite on valid actions.")
    if job.directory:
        trajectory = recorder.trajectory(terminated=ending.terminated, truncated=ending.truncated)
        components = spec.reward_components
        if interface:
            document = interface.document
            trajectory = replace(trajectory, infos=[shown_info(document, info) for info in trajectory.infos])
            components = shown_spec(spec, document).reward_components
        files = EpisodeFiles(trajectory, output.stdout, output.stderr, failure, components)
        write_episode(job.directory, files, job.recording)
    return _summarize(environment, recorder, ending, failure, seconds)


def _play(
    environment: PlayedEnvironment, policy: PolicyProcess, context: PolicyContext, job: EpisodeJob, watchdog: Watchdog
) -> tuple[Recorder, Ending, Failure | None]:
    write = policy.write_observation
    recorder = _start_recording(environment, policy.question, layout.HEADER.size, write, context, job)
    try:
        policy.wait_until_loaded()
        policy.reset()
        answer = _policy_actions(policy, environment)
        return recorder, _play_steps(environment, write, recorder, answer), None
    except PolicyFailed as failed:
        if failed.from_start:
            raise
        answer = _random_actions(environment, job.seed, watchdog)
        return recorder, _play_steps(environment, write, recorder, answer), failed.failure


def _start_recording(
    environment: PlayedEnvironment,
    frame: bytearray,
    offset: int,
    write_observation: Callable[[Any], None],
    context: PolicyContext,
    job: EpisodeJob,
) -> Recorder:
    """Reset the environment for a case; return its recorder, which reads observations from ``frame``."""
    schemas = dict(context.obs_space), dict(context.action_space)
    recorder = Recorder(frame, offset, *schemas, context.max_episode_steps)
    write_observation(environment.reset(job.seed))
    recorder.start()
    return recorder


def _play_steps(
    environment: PlayedEnvironment, write_observation: Callable[[Any], None], recorder: Recorder, answer: Answer
) -> Ending:
    """Play until the episode ends."""
    step, add, clipped_steps = environment.step, recorder.add, recorder.clipped
    while True:
        action, clipped = answer()
        observation, reward, terminated, truncated, info = step(action)
        write_observation(observation)
        if clipped:
            clipped_steps.append(recorder.length)
        add(action, reward, info)
        if terminated or truncated:
            return Ending(terminated, truncated, info)


def _policy_actions(policy: PolicyProcess, environment: PlayedEnvironment) -> Answer:
    act, read = policy.act, environment.action_reader()

    def answer() -> tuple[Any, bool]:
        raw = act()
        try:
            return read(raw)
        except InvalidAction as error:
            raise PolicyFailed(Failure(FailureReason.INVALID_ACTION, str(error), policy.steps_answered)) from error

    return answer


def anchor_seed(seed: int) -> int:
    """Return the seed of the anchor's actions in a case.

    It is a hash of the case's seed: simulators draw from ``default_rng(seed)``, and actions from the same stream would
    be correlated with the simulator's draws.
    """
    return int.from_bytes(hashlib.sha256(f"anchor 1|{seed}".encode()).digest(), "big")


def _random_actions(environment: PlayedEnvironment, seed: int, watchdog: Watchdog) -> Answer:
    random, draw = np.random.default_rng(anchor_seed(seed)), environment.action_sampler()

    def answer() -> tuple[Any, bool]:
        watchdog.reset()  # during random play, no monitor resets it
        return draw(random), False

    return answer


def _summarize(
    environment: PlayedEnvironment, recorder: Recorder, ending: Ending, failure: Failure | None, seconds: float
) -> Episode:
    episode_return = recorder.episode_return
    success = environment.success(episode_return, terminated=ending.terminated, info=ending.info)
    return Episode(
        episode_return=episode_return,
        length=recorder.length,
        terminated=ending.terminated,
        truncated=ending.truncated,
        trajectory_sha256=recorder.digest(terminated=ending.terminated, truncated=ending.truncated),
        success=None if success is None else success and failure is None,
        failure=failure,
        actions_clipped=len(recorder.clipped),
        reward_components=recorder.component_sums(environment.spec.reward_components),
        seconds=seconds,
    )


SEED = 0
"""Seed of the observation and of the policy's random numbers."""


def try_policy(zygote: Zygote, context: PolicyContext, limits: Limits, watchdog: Watchdog) -> Trial:
    """Construct the policy of the installed checkpoint, have it act once, and return the trial."""
    policy = PolicyProcess(zygote, context, limits, watchdog, policy_seed=SEED)
    error: LoadError | None = None
    result: Failure | float | None = None
    load_s: float | None = None
    since = time.perf_counter()
    try:
        policy.wait_until_loaded()
        load_s = time.perf_counter() - since
    except PolicyFailed as failed:
        error = load_error(failed)
    else:
        result = _try_act(policy, context)
    finally:
        output = policy.end()
    stdout, stderr = (escape_output(text)[:MOST_PRINTED] for text in (output.stdout, output.stderr))
    failure, act_s = (result, None) if isinstance(result, Failure) else (None, result)
    return Trial(error, failure, stdout, stderr, load_s, act_s)


def _try_act(policy: PolicyProcess, context: PolicyContext) -> Failure | float:
    """Have a policy act once on a sampled observation; return its failure, or the seconds that it took."""
    observation = sample(with_small_integers(from_schema(context.obs_space)), np.random.default_rng(SEED))
    try:
        policy.reset()
        policy.write_observation(observation)
        since = time.perf_counter()
        raw = policy.act()
        act_s = time.perf_counter() - since
        action_reader(from_schema(context.action_space))(raw)
    except PolicyFailed as failed:
        return failed.failure
    except InvalidAction as error:
        return Failure(FailureReason.INVALID_ACTION, str(error))
    return act_s
