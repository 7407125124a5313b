"""One case, from start to end: the environment steps here, the policy answers from the sandbox.

When the policy fails, the uniform-random anchor plays the episode to its natural end, from a stream of its own that the
case seeds. An environment's exception on a valid action is let through; the caller names it.
"""

import hashlib
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
from evopolicygym.core.spaces import InvalidAction, action_reader, from_schema, sample
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.interfaced_environment import PlayedEnvironment, play_through
from evopolicygym.records.trajectories import EpisodeFiles, escape_output, write_episode
from evopolicygym.rollout.guest import frames, layout
from evopolicygym.rollout.policy_process import PolicyFailed, PolicyOutput, PolicyProcess, load_error
from evopolicygym.rollout.recorder import Recorder
from evopolicygym.rollout.watchdog import Watchdog
from evopolicygym.rollout.zygote import Zygote

Answer = Callable[[], tuple[Any, bool]]
"""Chooses the next action; returns it and whether it was clipped."""

TOO_MUCH = (
    f"the simulator failed each of {ATTEMPTS} times on this policy's actions, which their space leaves without bounds; "
    f"the anchor played the episode from its start"
)


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
    """Play one case with the checkpoint that lies in the zygote's ground, and write its files where the job says."""
    began = perf_counter()
    policy = PolicyProcess(zygote, context, limits, watchdog, job.position, job.policy_seed)
    try:
        with closing(play_through(Environment(spec, job.world_seed), interface)) as environment:
            recorder, ending, failure = _play(environment, policy, context, job, watchdog)
        act_seconds = None if failure else policy.mean_act_s
    finally:
        output = policy.end()
    seconds = perf_counter() - began
    episode = _written(environment, recorder, ending, failure, output, job, seconds, interface)
    return replace(episode, act_seconds=None if act_seconds is None else round(act_seconds, 7))


def play_without_policy(
    spec: EnvironmentSpec,
    context: PolicyContext,
    watchdog: Watchdog,
    job: EpisodeJob,
    interface: BoundInterface | None = None,
) -> Episode:
    """Have the anchor play all of a case on which the simulator fails with the policy's actions."""
    began = perf_counter()
    frame = bytearray(layout.size(context.obs_space, wide=False))
    write = layout.bind(context.obs_space, frame, wide=False).write
    with closing(play_through(Environment(spec, job.world_seed), interface)) as environment:
        recorder = _begun(environment, frame, 0, write, context, job)
        ending = _steps(environment, write, recorder, _random_actions(environment, job.seed, watchdog))
    failure = Failure(FailureReason.INVALID_ACTION, TOO_MUCH)
    output, seconds = PolicyOutput(b"", b""), perf_counter() - began
    return _written(environment, recorder, ending, failure, output, job, seconds, interface)


def _written(
    environment: PlayedEnvironment,
    recorder: Recorder,
    ending: Ending,
    failure: Failure | None,
    output: PolicyOutput,
    job: EpisodeJob,
    seconds: float,
    interface: BoundInterface | None,
) -> Episode:
    """Write an episode's files where its job says, and return what came of it."""
    spec = environment.spec
    if not isfinite(recorder.episode_return):
        raise EnvironmentFault(f"{spec.id} gave rewards that are no finite numbers on valid actions.")
    if job.directory:
        trajectory = recorder.trajectory(terminated=ending.terminated, truncated=ending.truncated)
        components = spec.reward_components
        if interface:
            document = interface.document
            trajectory = replace(trajectory, infos=[shown_info(document, info) for info in trajectory.infos])
            components = shown_spec(spec, document).reward_components
        files = EpisodeFiles(trajectory, output.stdout, output.stderr, failure, components)
        write_episode(job.directory, files, job.recording)
    return _summed_up(environment, recorder, ending, failure, seconds)


def _play(
    environment: PlayedEnvironment, policy: PolicyProcess, context: PolicyContext, job: EpisodeJob, watchdog: Watchdog
) -> tuple[Recorder, Ending, Failure | None]:
    write = policy.write_observation
    recorder = _begun(environment, policy.question, frames.HEADER.size, write, context, job)
    try:
        policy.wait_until_loaded()
        policy.reset()
        answer = _policy_actions(policy, environment)
        return recorder, _steps(environment, write, recorder, answer), None
    except PolicyFailed as failed:
        answer = _random_actions(environment, job.seed, watchdog)
        return recorder, _steps(environment, write, recorder, answer), failed.failure


def _begun(
    environment: PlayedEnvironment,
    frame: bytearray,
    offset: int,
    write_observation: Callable[[Any], None],
    context: PolicyContext,
    job: EpisodeJob,
) -> Recorder:
    """Reset the environment for a case; return what records it, from the frame that observations are written into."""
    schemas = dict(context.obs_space), dict(context.action_space)
    recorder = Recorder(frame, offset, *schemas, context.max_episode_steps)
    write_observation(environment.reset(job.seed))
    recorder.start()
    return recorder


def _steps(
    environment: PlayedEnvironment, write_observation: Callable[[Any], None], recorder: Recorder, answer: Answer
) -> Ending:
    """Play until the episode ends: the inner loop of everything."""
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

    It is a hash of the case's seed and not that seed itself: simulators draw from ``default_rng(seed)``, and actions
    from the same stream would be those that a simulator hides.
    """
    return int.from_bytes(hashlib.sha256(f"anchor 1|{seed}".encode()).digest(), "big")


def _random_actions(environment: PlayedEnvironment, seed: int, watchdog: Watchdog) -> Answer:
    random, draw = np.random.default_rng(anchor_seed(seed)), environment.action_sampler()

    def answer() -> tuple[Any, bool]:
        watchdog.reset()  # no monitor resets it during random play
        return draw(random), False

    return answer


def _summed_up(
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
    """Return what came of the checkpoint that lies in the zygote's ground."""
    policy = PolicyProcess(zygote, context, limits, watchdog, policy_seed=SEED)
    error: LoadError | None = None
    came: Failure | float | None = None
    load_s: float | None = None
    since = time.perf_counter()
    try:
        policy.wait_until_loaded()
        load_s = time.perf_counter() - since
    except PolicyFailed as failed:
        error = load_error(failed)
    else:
        came = _acted(policy, context)
    finally:
        output = policy.end()
    stdout, stderr = (escape_output(text)[:MOST_PRINTED] for text in (output.stdout, output.stderr))
    failure, act_s = (came, None) if isinstance(came, Failure) else (None, came)
    return Trial(error, failure, stdout, stderr, load_s, act_s)


def _acted(policy: PolicyProcess, context: PolicyContext) -> Failure | float:
    """Have a policy act once; return how it failed, or the seconds that it took."""
    made_up = sample(from_schema(context.obs_space), np.random.default_rng(SEED))
    try:
        policy.reset()
        policy.write_observation(made_up)
        since = time.perf_counter()
        raw = policy.act()
        act_s = time.perf_counter() - since
        action_reader(from_schema(context.action_space))(raw)
    except PolicyFailed as failed:
        return failed.failure
    except InvalidAction as error:
        return Failure(FailureReason.INVALID_ACTION, str(error))
    return act_s
