"""Errors: one tree, exit codes, and that they travel between processes as they are."""

import pickle

import pytest

from evopolicygym.core.errors import (
    AgentError,
    EnvironmentFault,
    EvoPolicyGymError,
    MissingExtra,
    RecordError,
    RequestRefused,
    SandboxError,
    UnknownName,
    UsageError,
)

ERRORS = [
    UsageError("a sentence"),
    UnknownName("agent", "a", ["b"]),
    MissingExtra("The environment 'ant'", "core16", "mujoco"),
    RequestRefused("closed", "a sentence", 409),
    RecordError("a sentence"),
    EnvironmentFault("a sentence"),
    SandboxError("a sentence"),
    AgentError("a sentence"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_travel_between_processes(error: EvoPolicyGymError) -> None:
    """What a worker raises says the same where it is read."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert (type(error), str(error), vars(error)) == (type(again), str(again), vars(again))


@pytest.mark.parametrize(
    ("kind", "code"), [(UsageError, 2), (UnknownName, 2), (RecordError, 3), (SandboxError, 4), (AgentError, 5)]
)
def test_exit_codes(kind: type[EvoPolicyGymError], code: int) -> None:
    """Each boundary has an exit code of its own."""
    assert code == kind.exit_code


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("akrobot", "There is no task named 'akrobot'. Did you mean 'acrobot'? Known: acrobot, ant."),
        ("zzz", "There is no task named 'zzz'. Known: acrobot, ant."),
    ],
)
def test_an_unknown_name_lists_the_known(asked: str, expected: str) -> None:
    """A name that nothing answers to comes with those that do."""
    assert expected == str(UnknownName("task", asked, ["ant", "acrobot"]))
