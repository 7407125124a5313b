"""Environments, made real: every simulator is made, reset and stepped as its spec says."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as theirs

from evopolicygym.core import spaces as ours
from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import EnvironmentSpec, Success, SuccessRule
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import mismatch
from evopolicygym.specs import catalog
from plain_gymnasium import assert_plays_as_plain, sampled
from specs import CARTPOLE, MINIGRID, each_family


class Scripted(gymnasium.Env[Any, Any]):
    """A simulator of ours: terminates at its second step, and raises at its third."""

    observation_space = theirs.Box(0.0, 9.0, (1,), np.float32)
    action_space = theirs.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps > 2:
            raise ZeroDivisionError("a bug of the simulator")
        return np.full(1, self.steps, np.float32), np.float32(action), np.bool_(self.steps == 2), np.bool_(0), {}  # type: ignore[return-value]


def make_scripted(**_: Any) -> Scripted:
    return Scripted()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> EnvironmentSpec:
    wrapper = gymnasium.wrappers.RescaleObservation.wrapper_spec(min_obs=np.float32(0), max_obs=np.float32(1))
    registered = gymnasium.envs.registration.EnvSpec("Scripted-v0", make_scripted, max_episode_steps=1)
    wrapped = gymnasium.envs.registration.EnvSpec("Wrapped-v0", make_scripted, additional_wrappers=(wrapper,))
    monkeypatch.setitem(gymnasium.registry, "Scripted-v0", registered)
    monkeypatch.setitem(gymnasium.registry, "Wrapped-v0", wrapped)
    return replace(CARTPOLE, name="scripted", id="Scripted-v0", max_steps=9)


@each_family
def test_observations_are_what_the_schema_says(name: str) -> None:
    """After a reset and after a step, the observation has the types, dtypes, shapes and names of its space."""
    environment = Environment(catalog.load(name))
    first = environment.reset(3)
    second = environment.step(environment.idle_action)[0]
    space = environment.simulator.observation_space
    environment.close()

    assert mismatch(space, first, bounds=False) == ""
    assert mismatch(space, second, bounds=False) == ""


@each_family
def test_each_element_and_value_has_one_meaning(name: str) -> None:
    """A flat vector has as many meanings as elements, a choice as many as values."""
    spec = catalog.load(name)
    environment = Environment(spec)
    environment.reset(3)

    for space, texts in ((environment.observation_space, spec.observation), (environment.action_space, spec.action)):
        due = space.shape[0] if isinstance(space, ours.Box) and len(space.shape) == 1 else getattr(space, "n", None)
        assert due in {len(texts), None}
        assert due is None or (getattr(space, "fields", ()) or getattr(space, "labels", ())) == texts


@each_family
def test_a_step_answers_with_plain_types(name: str) -> None:
    """Rewards are floats and endings are bools, whatever numpy type the simulator used."""
    environment = Environment(catalog.load(name))
    environment.reset(3)
    _, reward, terminated, truncated, info = environment.step(environment.idle_action)

    assert [type(value) for value in (reward, terminated, truncated, info)] == [float, bool, bool, dict]
    assert all(key in info for key in environment.spec.reward_components)


@each_family
def test_an_episode_is_truncated_at_max_steps(name: str) -> None:
    """The step that reaches ``max_steps`` is truncated, and none before; a reset counts anew."""
    environment = Environment(replace(catalog.load(name), max_steps=3))
    for seed in (3, 4):
        environment.reset(seed)
        truncated = [environment.step(environment.idle_action)[3] for _ in range(3)]

        assert truncated == [False, False, True]


@each_family
def test_specs_and_registrations_agree_on_the_number_of_steps(name: str) -> None:
    """A spec's ``max_steps`` is the environment's own limit; the paper's cut of door_key is the one exception."""
    spec = catalog.load(name)
    simulator = Environment(spec)._simulator.unwrapped
    own = gymnasium.spec(spec.id).max_episode_steps or getattr(simulator, "max_steps", None)
    own = own or simulator.config["duration"] * simulator.config["policy_frequency"]  # type: ignore[attr-defined]

    assert spec.max_steps == (1000 if name == "door_key" else own)


def test_door_key_says_that_its_reward_counts_to_2560() -> None:
    """The cut at 1000 steps leaves the environment's own limit in the reward, and the texts say both."""
    spec = catalog.load("door_key")

    assert Environment(spec)._simulator.unwrapped.max_steps == 2560  # type: ignore[attr-defined]
    assert "2560" in spec.reward
    assert "1000" in spec.termination


def test_the_last_step_allowed_is_truncated_even_where_it_terminates(scripted: EnvironmentSpec) -> None:
    """As in gymnasium's TimeLimit, both endings can hold at once."""
    environment = Environment(replace(scripted, max_steps=2))
    environment.reset(0)
    endings = [environment.step(0)[2:4] for _ in range(2)]
    shorter = Environment(replace(scripted, max_steps=1))
    shorter.reset(0)

    assert endings == [(False, False), (True, True)]
    assert shorter.step(0)[2:4] == (False, True)
    assert {type(flag) for flags in endings for flag in flags} == {bool}


def test_only_wrappers_that_change_data_are_kept(scripted: EnvironmentSpec) -> None:
    """What merely checks or counts is left out, the registration's own limit included; what rescales stays."""
    bare, wrapped = Environment(scripted), Environment(replace(scripted, id="Wrapped-v0"))

    assert type(bare._simulator) is Scripted
    assert wrapped.reset(0) == 0.0
    assert wrapped.step(0)[0] == pytest.approx(1 / 9)


def test_what_a_simulator_raises_comes_through(scripted: EnvironmentSpec) -> None:
    """A simulator's own error reaches the caller, who names it."""
    environment = Environment(scripted)
    environment.reset(0)
    environment.step(0)
    environment.step(0)

    with pytest.raises(ZeroDivisionError):
        environment.step(0)


@pytest.mark.parametrize("name", ["acrobot", "bipedal_walker", "half_cheetah", "four_rooms", "fetch_push"])
def test_episodes_are_those_of_plain_gymnasium(name: str) -> None:
    """The same seed and actions give the same bits as ``gymnasium.make``."""
    assert_plays_as_plain(catalog.load(name), 5, 30, sampled)


@pytest.mark.parametrize("name", MINIGRID)
def test_the_idle_action_of_minigrid_does_nothing(name: str) -> None:
    """The idle action of a grid world leaves what is seen as it was."""
    environment = Environment(catalog.load(name))
    first = environment.reset(3)

    np.testing.assert_equal(environment.step(environment.idle_action)[0], first)


@pytest.mark.parametrize(
    ("success", "last", "expected"),
    [
        (None, (1.0, True, {}), None),
        (Success(SuccessRule.TERMINATED), (0.0, True, {}), True),
        (Success(SuccessRule.TERMINATED), (9.0, False, {}), False),
        (Success(SuccessRule.POSITIVE_RETURN), (0.1, False, {}), True),
        (Success(SuccessRule.POSITIVE_RETURN), (0.0, True, {}), False),
        (Success(SuccessRule.INFO, "won"), (0.0, True, {"won": np.float32(1)}), True),
        (Success(SuccessRule.INFO, "won"), (9.0, True, {"won": np.False_}), False),
        (Success(SuccessRule.INFO, "won"), (9.0, True, {}), False),
    ],
)
def test_success_is_told_by_its_rule(success: Success | None, last: tuple[Any, ...], expected: object) -> None:
    """Each rule of success reads what it names, and nothing else; without a rule nothing is told."""
    environment = Environment(replace(CARTPOLE, success=success))

    assert environment.success(*last) is expected


@pytest.mark.parametrize(
    ("name", "module"), [("four_rooms", "minigrid"), ("ant", "mujoco"), ("bipedal_walker", "Box2D")]
)
def test_a_missing_simulator_names_the_extra(name: str, module: str) -> None:
    """Where the simulator isn't installed, the error says what is missing and which extra brings it."""
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from evopolicygym.environments import environment\n"
        "from evopolicygym.specs import catalog\n"
        "from evopolicygym.core.errors import MissingExtra\n"
        f"try: environment.Environment(catalog.load({name!r}))\n"
        "except MissingExtra as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert module in printed
    assert "evopolicygym[core16]" in printed


def test_a_simulator_of_no_extra_is_still_named() -> None:
    """An outsider's spec without an extra says which module is missing."""
    with pytest.raises(UsageError, match="no_such_simulator"):
        Environment(replace(CARTPOLE, imports=("no_such_simulator",)))


def test_an_unknown_id_is_refused() -> None:
    """An id that nothing registered is refused with the place where modules are named."""
    with pytest.raises(UsageError, match="imports = "):
        Environment(replace(CARTPOLE, id="NoSuchThing-v0"))


@pytest.mark.parametrize("name", ["fetch_push", "car_racing", "roundabout"])
def test_simulators_come_without_a_word(name: str) -> None:
    """Making an environment warns of nothing and prints nothing, not even what its packages like to say."""
    program = (
        "from evopolicygym.environments import environment as e; from evopolicygym.specs import catalog as c;"
        f"e.Environment(c.load({name!r}))"
    )
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYGAME", "SDL"))}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, env=clean
    )

    assert (ended.stdout, ended.stderr) == ("", "")


@pytest.mark.parametrize(("before", "after"), [(None, "dummy"), ("x11", "x11")])
def test_drawing_needs_no_screen(monkeypatch: pytest.MonkeyPatch, before: str | None, after: str) -> None:
    """Pygame is told to draw without a screen, unless the user told it otherwise."""
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    if before is not None:
        monkeypatch.setenv("SDL_VIDEODRIVER", before)
    Environment(CARTPOLE)

    assert os.environ["SDL_VIDEODRIVER"] == after


def test_a_bad_state_of_mujoco_is_logged_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """MuJoCo's warning goes to the log, not to a file where the run was started."""
    monkeypatch.chdir(tmp_path)
    environment = Environment(catalog.load("half_cheetah"))
    environment.reset(0)
    environment._simulator.unwrapped.data.qvel[:] = 1e12  # type: ignore[attr-defined]
    environment.step(environment.idle_action)

    assert "unstable" in caplog.text
    assert list(tmp_path.iterdir()) == []
