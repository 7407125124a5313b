"""Limits of ours that are raised twentyfold in tests, so that a loaded machine reaches none that a test isn't about."""

from functools import reduce
from importlib import import_module

import pytest

FACTOR = 20


def _found(limit: str) -> tuple[object, str]:
    module, _, name = limit.partition(":")
    *classes, last = name.split(".")
    return reduce(getattr, classes, import_module(f"evopolicygym.{module}")), last


LIMITS = (
    "judge_client.client:TIMEOUT_S",
    "agents.kit.outside_agent:CONNECT_S",
    "environments.trace:_TRACE_TIMEOUT_S",
    "checks.inspection:GONE_S",
    "environments.description:PATIENCE_S",
    "environments.rendering:TRIAL_S",
    "environments.rendering:STILL_S",
    "serving.connection:Connection.request_s",
    "judge.films:FILM_S",
    "judge.session:PLAYER_GRACE_S",
    "model_proxy.endpoint:BODY_S",
    "model_proxy.forward:WRITE_S",
    "rollout.checkpoint:CAPTURE_TIMEOUT_S",
    "rollout.executors.local:CLEANUP_S",
    "rollout.executors.local:HANG_S",
    "rollout.films.filming:EXIT_S",
    "rollout.zygote:ANSWER_S",
    "runs.turns:AGENT_GRACE_S",
    "runs.turns:AGENT_LAST_WORDS_S",
    "sandbox.bwrap:PATIENCE_S",
    "sandbox.program.enclosed:GONE_S",
    "sandbox.program.started:HANDSHAKE_S",
    "sandbox.program.plain:GONE_S",
    "sandbox.program.standing:CONNECT_S",
    "sandbox.program.standing:SEND_S",
    "sandbox.program.started:GONE_S",
)
"""Module of the package and name of each, of those that a process of the tests itself reads when it waits."""
REAL = [(module, name, getattr(module, name)) for module, name in (_found(limit) for limit in LIMITS)]


def raise_limits(patch: pytest.MonkeyPatch) -> None:
    """Raise all limits."""
    for module, name, seconds in REAL:
        patch.setattr(module, name, FACTOR * seconds)


def restore_limits(patch: pytest.MonkeyPatch) -> None:
    """Have all limits as users have them."""
    for module, name, seconds in REAL:
        patch.setattr(module, name, seconds)
