"""One case, from start to end: the environment steps here, the policy answers from the sandbox.

When the policy fails, the uniform-random anchor, seeded by the case, plays the episode to its natural end. An
environment's exception on a valid action is let through; the caller names it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np

from evopolicygym.core.environment import EnvironmentSpec
from evopolicygym.core.episode import Episode, Failure, FailureReason
from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.policy import PolicyContext
from evopolicygym.core.rollout import EpisodeJob
from evopolicygym.core.spaces import InvalidAction, action_reader, sample
from evopolicygym.core.task import Limits
from evopolicygym.environments.environment import Environment
from evopolicygym.records.trajectories import EpisodeFiles, write_episode
from evopolicygym.rollout.guest import frames
from evopolicygym.rollout.policy_process import PolicyFailed, PolicyProcess
from evopolicygym.rollout.recorder import Recorder
from evopolicygym.rollout.watchdog import Watchdog
from evopolicygym.rollout.zygote import Zygote

Answer = Callable[[], tuple[Any, bool]]
"""What chooses the next action: returns it with whether it was clipped."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an episode ended."""

    terminated: bool
    truncated: bool
    info: dict[str, Any]


def play_episode(
    spec: EnvironmentSpec, zygote: Zygote, context: PolicyContext, limits: Limits, watchdog: Watchdog, job: EpisodeJob
) -> Episode:
    """Play one case with the checkpoint that lies in the zygote's ground, and write its files where the job says."""
    began = perf_counter()
    policy = PolicyProcess(zygote, context, limits, watchdog, job.position, job.policy_seed)
    try:
        environment = Environment(spec)
        try:
            recorder, ending, failure = _play(environment, policy, context, job, watchdog)
        finally:
            environment.close()
    finally:
        output = policy.end()
    if not isfinite(recorder.episode_return):
        raise EnvironmentFault(f"{spec.id} gave rewards that are no finite numbers on valid actions.")
    if job.directory:
        trajectory = recorder.trajectory(terminated=ending.terminated, truncated=ending.truncated)
        files = EpisodeFiles(trajectory, output.stdout, output.stderr, failure, spec.reward_components)
        write_episode(job.directory, files, job.recording)
    return _summed_up(environment, recorder, ending, failure, perf_counter() - began)


def _play(
    environment: Environment, policy: PolicyProcess, context: PolicyContext, job: EpisodeJob, watchdog: Watchdog
) -> tuple[Recorder, Ending, Failure | None]:
    schemas = dict(context.obs_space), dict(context.action_space)
    recorder = Recorder(policy.question, frames.HEADER.size, *schemas, context.max_episode_steps)
    policy.write_observation(environment.reset(job.seed))
    recorder.start()
    try:
        policy.wait_until_loaded()
        policy.reset()
        answer = _policys(policy, environment)
        return recorder, _steps(environment, policy, recorder, answer), None
    except PolicyFailed as failed:
        answer = _anchors(environment, job.seed, watchdog)
        return recorder, _steps(environment, policy, recorder, answer), failed.failure


def _steps(environment: Environment, policy: PolicyProcess, recorder: Recorder, answer: Answer) -> Ending:
    """Play until the episode ends: the inner loop of everything."""
    step, write_observation, add, clipped_steps = (
        environment.step,
        policy.write_observation,
        recorder.add,
        recorder.clipped,
    )
    while True:
        action, clipped = answer()
        observation, reward, terminated, truncated, info = step(action)
        write_observation(observation)
        if clipped:
            clipped_steps.append(recorder.length)
        add(action, reward, info)
        if terminated or truncated:
            return Ending(terminated, truncated, info)


def _policys(policy: PolicyProcess, environment: Environment) -> Answer:
    act, read = policy.act, action_reader(environment.action_space)

    def answer() -> tuple[Any, bool]:
        raw = act()
        try:
            return read(raw)
        except InvalidAction as error:
            raise PolicyFailed(Failure(FailureReason.INVALID_ACTION, str(error), policy.steps_answered)) from error

    return answer


def _anchors(environment: Environment, seed: int, watchdog: Watchdog) -> Answer:
    random, space = np.random.default_rng(seed), environment.action_space

    def answer() -> tuple[Any, bool]:
        watchdog.rest()  # no attendant sees the anchor's progress
        return sample(space, random), False

    return answer


def _summed_up(
    environment: Environment, recorder: Recorder, ending: Ending, failure: Failure | None, seconds: float
) -> Episode:
    episode_return = recorder.episode_return
    return Episode(
        episode_return=episode_return,
        length=recorder.length,
        terminated=ending.terminated,
        truncated=ending.truncated,
        trajectory_sha256=recorder.digest(terminated=ending.terminated, truncated=ending.truncated),
        success=environment.success(episode_return, terminated=ending.terminated, info=ending.info),
        failure=failure,
        actions_clipped=len(recorder.clipped),
        reward_components=recorder.component_sums(environment.spec.reward_components),
        seconds=seconds,
    )
