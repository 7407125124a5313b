"""A trial: a policy is constructed, reset and asked for one action, and no environment is there.

What it sees is drawn at random from the observation space, the same each time: nothing of any case.
"""

import time

import numpy as np

from evopolicygym.core.rollout import MOST_PRINTED, Failure, FailureReason, Trial
from evopolicygym.core.spaces import InvalidAction, action_reader, from_schema, sample
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import Limits, PolicyContext
from evopolicygym.records.trajectories import printable
from evopolicygym.rollout.policy_process import PolicyFailed, PolicyProcess, load_error
from evopolicygym.rollout.watchdog import Watchdog
from evopolicygym.rollout.zygote import Zygote

SEED = 0
"""Of the observation, and of the policy's own random numbers."""


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
    stdout, stderr = (printable(text)[:MOST_PRINTED] for text in (output.stdout, output.stderr))
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
