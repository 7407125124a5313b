"""What a run may be asked to play: a spec, a task of a pack, any registered id."""

import pytest

import own_pack
from evopolicygym.core.errors import EvoPolicyGymError, UnknownName, UnregisteredId, UsageError
from evopolicygym.core.task import Anchor, TaskText
from evopolicygym.environments.derived import pack_environment
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.specs import pack_catalog


def test_a_registered_id() -> None:
    """An id that gymnasium knows is played with a terse text of its own docstring, and with its own limit."""
    spec, text = resolve_environment("CartPole-v1", TaskText.FULL)

    assert (spec.name, spec.id, spec.max_steps, text) == ("CartPole-v1", "CartPole-v1", 500, TaskText.TERSE)
    assert spec.action == ("Push cart to the left", "Push cart to the right")
    assert spec.observation == ("Cart Position", "Cart Velocity", "Pole Angle", "Pole Angular Velocity")
    assert "pole" in spec.objective
    assert not any(sign in spec.objective + spec.reward for sign in "=0123456789")


def test_arguments_and_modules() -> None:
    """Modules are imported first, and arguments reach the simulator and the record."""
    spec, _ = resolve_environment("Plain-v0", TaskText.TERSE, ["simulators"])
    harder, _ = resolve_environment("CliffWalking-v1", TaskText.TERSE, [], {"is_slippery": True})

    assert (spec.imports, spec.name) == (("simulators",), "Plain-v0")
    assert harder.arguments == {"is_slippery": True}


ANCHORED = """
title = "Poles"
family = "poles"
licence = "MIT"

[[tasks]]
ids = ["CartPole-v1"]
kind = "tuning"
variant = "short"
max_steps = 70

[anchors."CartPole-v1-short"]
max_steps = 70
random = { mean = 21.5, standard_error = 0.5, episodes = 64 }
degenerate = { mean = 9.0, standard_error = 0.0, episodes = 64 }
degenerate_policy = "pushes to one side"
"""
"""A pack whose task has anchors."""


def test_the_anchors_of_a_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of a pack has its anchors as a spec has; with other arguments or another limit it has none."""
    own_pack.known(monkeypatch, ANCHORED, "poles")
    own_pack.known(monkeypatch, ANCHORED.replace("max_steps = 70", "max_steps = 71", 1), "limited")
    spec, _ = resolve_environment("CartPole-v1-short", TaskText.TERSE)
    other, _ = resolve_environment("CartPole-v1-short", TaskText.TERSE, (), {"sutton_barto_reward": True})
    pack = pack_catalog.load("limited")
    limited = pack_environment(pack, pack.tasks[0], (), {})

    assert (spec.random_anchor, spec.idle_anchor) == (Anchor(21.5, 0.5, 64), None)
    assert (spec.degenerate_anchor, spec.degenerate_policy) == (Anchor(9.0, 0.0, 64), "pushes to one side")
    assert (other.random_anchor, limited.random_anchor, limited.max_steps) == (None, None, 71)


@pytest.mark.parametrize(
    ("asked", "imports", "arguments", "why"),
    [
        ("acrobot", ["simulators"], {}, "modules"),
        ("acrobot", [], {"a": 1}, "Acrobot-v1"),
        ("NoSuch-v0", [], {}, "NoSuch-v0.*--import"),
        ("NoSuch-v0", ["simulators"], {}, "simulators"),
        ("simulators:NoSuch", [], {}, "simulators has no class or function 'NoSuch'"),
        ("CartPole-v1", [], {"no_such_argument": 1}, "no_such_argument"),
        ("nosuch/Thing-v0", [], {}, "nosuch/Thing-v0"),
        ("Thing-v0", ["no_such_module"], {}, "no_such_module"),
    ],
)
def test_what_can_t_be_played(asked: str, imports: list[str], arguments: dict[str, int], why: str) -> None:
    """What isn't known, isn't installed or takes no such argument is said."""
    with pytest.raises(EvoPolicyGymError, match=why):
        resolve_environment(asked, TaskText.FULL, imports, arguments)


@pytest.mark.parametrize("asked", ["acrobat", "/runs/finished", "a/b/c", "runs/20261121-060000-ab12 "])
def test_neither_a_name_nor_an_id(asked: str) -> None:
    """A misspelt name, or a path, is answered with the names that there are, and no simulator is asked."""
    with pytest.raises(UnknownName, match="acrobot"):
        resolve_environment(asked, TaskText.FULL)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("walks.far.Walk", "walks.far:Walk"), ("here/walk.py", "PYTHONPATH=here .*walk:CLASS"), ("walk.py", "walk:CLASS")],
)
def test_a_class_that_is_spelled_as_a_file_or_with_dots(asked: str, hint: str) -> None:
    """What seems to be a file or a dotted path is answered with the spelling that is played."""
    with pytest.raises(UnknownName, match=hint):
        resolve_environment(asked, TaskText.FULL)


def test_an_id_of_a_packs_namespace() -> None:
    """An id that a known pack doesn't have is answered with the pack and its near tasks."""
    with pytest.raises(UnregisteredId, match=r"ale.*ALE/Tetris-v5"):
        resolve_environment("ALE/Tertis-v5", TaskText.FULL)


def test_a_word_that_is_no_name() -> None:
    """A plain word is answered with the specs and with the few tasks that are near, not with all tasks."""
    with pytest.raises(UnknownName) as refusal:
        resolve_environment("tetris", TaskText.FULL)
    said = str(refusal.value)

    assert all(name in said for name in ("ALE/Tetris-v5", "jumanji/Tetris-v0"))
    assert len(said) < 800


def test_a_space_that_no_policy_can_be_given() -> None:
    """Spaces of no fixed size are refused, with those that work."""
    with pytest.raises(UsageError, match=r"Graph.*Discrete, Box"):
        resolve_environment("Graphic-v0", TaskText.FULL, ["simulators"])


@pytest.mark.parametrize(
    ("asked", "why"),
    [("Paired-v0", "reward.*ndarray"), ("Village-v0", r"simulators\.Village.*one agent"), ("Fleet-v0", "vector")],
)
def test_what_is_not_of_one_agent(asked: str, why: str) -> None:
    """A reward of several numbers, an environment of several agents and a vector of environments are refused."""
    with pytest.raises(UsageError, match=why):
        resolve_environment(asked, TaskText.FULL, ["simulators"])


@pytest.mark.parametrize(
    "asked", ["MiniHack-Boxoban-Hard-v0", "ahc054", "pettingzoo", "intersection-multi-agent-v1", "tw-simple-v0"]
)
def test_what_is_listed_as_unavailable(asked: str) -> None:
    """An id that a pack lists among what can't be had is refused with the reason that stands there."""
    reasons = [listed.reason for pack in pack_catalog.readable() for listed in pack.unavailable]
    with pytest.raises(UsageError) as refusal:
        resolve_environment(asked, TaskText.FULL)

    assert any(str(refusal.value).endswith(reason) for reason in reasons)


def test_a_module_that_a_pack_can_not_import() -> None:
    """A module that is not there is said, and not taken for what the pack's extra installs."""
    with pytest.raises(UsageError, match="no_such_module in --import"):
        resolve_environment("CartPole-v1", TaskText.FULL, ["no_such_module"])
