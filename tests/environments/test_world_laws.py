"""The laws of worlds: how what they draw is distributed, what depends on what, and in which order it is applied."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from scipy import stats

from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.world import decode_world
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.world import BLOCK
from evopolicygym.specs import catalog
from simulators import Plain, spec

STEPS = 2 * BLOCK // 2 + 500
"""Longer than the noise that is drawn at once for two numbers."""
LONG = spec("Plain", STEPS + 1)
LEAST_P = 1e-4
"""Seeds are fixed, so a test that passes always passes."""


def in_world(environment: EnvironmentSpec, **document: Any) -> EnvironmentSpec:
    """Return an environment in the world of a document."""
    return environment.in_world(decode_world(document, "test", "the test"))


def observed(environment: EnvironmentSpec, seed: int, steps: int = STEPS, world_seed: int = 1) -> Any:
    """Return the observations of an episode of idle actions."""
    simulator = Environment(environment, world_seed)
    idle = np.zeros(2, np.float32)
    return np.array([simulator.reset(seed), *(simulator.step(idle)[0] for _ in range(steps))], np.float64)


def noise(seed: int, world_seed: int = 1, **spread: Any) -> Any:
    """Return the noise of an episode, by step and number."""
    noisy = in_world(LONG, noise={"observation": spread})
    return observed(noisy, seed, world_seed=world_seed) - observed(LONG, seed)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the actions that a simulator is given, as it is given them."""
    given: list[Any] = []
    for kind in (Plain, CartPoleEnv):
        step = kind.step

        def recording(self: Any, action: Any, step: Any = step) -> Any:
            given.append(np.array(action))
            return step(self, action)

        monkeypatch.setattr(kind, "step", recording)
    return given


def test_noise_is_normal_and_drawn_anew_for_each_number_at_each_step() -> None:
    """It has mean 0 and the declared deviation, and no number tells anything of another, near or far."""
    found = noise(5, absolute=[0.2, 0.05])
    share = noise(5, share=0.01)

    for column, deviation in ((found[:, 0], 0.2), (found[:, 1], 0.05), (share[:, 0], 0.2), (share[:, 1], 0.2)):
        assert stats.kstest(column, "norm", args=(0, deviation)).pvalue > LEAST_P
        assert len(set(column.tolist())) > 0.99 * len(column)
        for lag in (1, 2, BLOCK // 2):
            assert stats.pearsonr(column[:-lag], column[lag:]).pvalue > LEAST_P
    assert stats.pearsonr(found[:, 0], found[:, 1]).pvalue > LEAST_P


def test_each_case_and_each_experiment_has_a_noise_of_its_own() -> None:
    """The same case has the same noise; another case, or the same one of another experiment, has nothing of it."""
    first = noise(5, absolute=0.2)[:, 0]

    assert np.array_equal(first, noise(5, absolute=0.2)[:, 0])
    for other in (noise(6, absolute=0.2)[:, 0], noise(5, 2, absolute=0.2)[:, 0]):
        assert stats.pearsonr(first, other).pvalue > LEAST_P
        assert stats.pearsonr(first[1:], other[:-1]).pvalue > LEAST_P


def test_a_choice_is_another_one_as_often_as_declared(executed: list[Any]) -> None:
    """With a share of 0.3, three choices in ten are drawn anew, of which half are the same again, at any step."""
    simulator = Environment(in_world(catalog.load("cartpole"), noise={"action": {"share": 0.3}}), 1)
    played = []
    for seed in range(60):
        simulator.reset(seed)
        ended = False
        for step in range(200):
            if not ended:
                played.append(step % 2)
                ended = simulator.step(step % 2)[2]
    other = np.array(played) != np.array(executed)

    assert stats.binomtest(int(other.sum()), len(other), 0.15).pvalue > LEAST_P
    assert stats.pearsonr(other[:-1], other[1:]).pvalue > LEAST_P


def test_actions_pass_delay_and_then_noise(executed: list[Any]) -> None:
    """The idle actions of the first steps are executed with noise, and the noise of a step is drawn at that step."""
    plain = spec("Plain", 9)
    idle = [0.5, -0.5]
    both = in_world(replace(plain, idle_action=idle), delay={"action": 2}, noise={"action": {"absolute": 0.01}})
    simulator = Environment(both, 1)
    simulator.reset(5)
    sent = [np.full(2, 0.1 * step, np.float32) for step in range(6)]
    for action in sent:
        simulator.step(action)
    moved = np.array(executed) - np.array([idle, idle, *sent[:4]])

    assert (np.abs(moved) > 0).all()
    assert np.abs(moved).max() < 0.06
    assert len({*moved.ravel().tolist()}) == moved.size


def test_observations_pass_noise_and_then_delay() -> None:
    """What comes late has the noise of its own step: the first observation is repeated as it was."""
    noisy = {"observation": {"absolute": 0.1}}
    late = observed(in_world(spec("Plain", 9), noise=noisy, delay={"observation": 2}), 5, 6)
    prompt = observed(in_world(spec("Plain", 9), noise=noisy), 5, 6)

    assert np.array_equal(late, [prompt[0], prompt[0], *prompt[:5]])


def test_random_actions_come_in_every_number_up_to_the_most(executed: list[Any]) -> None:
    """From none to the most, each as often as any other."""
    simulator = Environment(in_world(spec("Plain", 9), jitter={"actions": 3}), 1)
    counts = []
    for seed in range(400):
        before = len(executed)
        simulator.reset(seed)
        counts.append(len(executed) - before)
    found = np.bincount(counts)

    assert len(found) == 4
    assert stats.chisquare(found).pvalue > LEAST_P
    assert len({action.tobytes() for action in executed}) == len(executed)


def test_a_start_is_moved_both_ways_and_no_further() -> None:
    """Positions and velocities are uniform between both ends of their jitter, each number for itself."""
    reacher = catalog.load("reacher")
    plain = Environment(reacher, 1)
    simulator = Environment(in_world(reacher, jitter={"position": 0.05, "velocity": 0.1}), 1)
    moves: dict[str, list[Any]] = {"qpos": [], "qvel": []}
    for seed in range(200):
        plain.reset(seed)
        simulator.reset(seed)
        for name, found in moves.items():
            before, after = (getattr(one.simulator.unwrapped.data, name) for one in (plain, simulator))  # type: ignore[attr-defined]
            found.append(after - before)
    for name, width in (("qpos", 0.05), ("qvel", 0.1)):
        found = np.array(moves[name])
        for place in range(2):  # the arm's joints; the target's are limited
            column = found[:, place]
            assert stats.kstest(column, "uniform", args=(-width, 2 * width)).pvalue > LEAST_P
        assert np.abs(found).max() <= width
        assert stats.pearsonr(found[:, 0], found[:, 1]).pvalue > LEAST_P


def test_no_joint_starts_beyond_its_limits() -> None:
    """A joint that would be moved too far stops at its limit, at either end, or where it starts if that is beyond."""
    plain = Environment(catalog.load("ant"), 1)
    simulator = Environment(in_world(catalog.load("ant"), jitter={"position": 2.0}), 1)
    ends = set()
    for seed in range(20):
        plain.reset(seed)
        simulator.reset(seed)
        model, data = simulator.simulator.unwrapped.model, simulator.simulator.unwrapped.data  # type: ignore[attr-defined]
        start = plain.simulator.unwrapped.data.qpos  # type: ignore[attr-defined]
        for joint in np.flatnonzero(model.jnt_limited):
            place = model.jnt_qposadr[joint]
            low, *_, high = sorted([*model.jnt_range[joint], start[place]])
            assert low <= data.qpos[place] <= high
            ends |= {"low"} if data.qpos[place] == low else {"high"} if data.qpos[place] == high else set()

    assert ends == {"low", "high"}


def model_of(world_seed: int, drawn: dict[str, list[float]]) -> Any:
    """Return the MuJoCo model of reacher in a world that draws parameters."""
    return Environment(in_world(catalog.load("reacher"), drawn=drawn), world_seed).simulator.unwrapped.model  # type: ignore[attr-defined]


def test_parameters_are_uniform_and_independent() -> None:
    """Each factor is uniform in its range; no parameter, and no part of the body, tells anything of another."""
    own = model_of(0, {"gravity": [1, 1]})
    drawn = {"gravity": [0.5, 2], "geom_friction": [0.5, 2], "dof_damping": [0.5, 2], "actuator_gear": [0.5, 2]}
    factors = []
    for world_seed in range(150):
        model = model_of(world_seed, drawn)
        factors.append(
            [
                model.opt.gravity[2] / own.opt.gravity[2],
                model.geom_friction[0, 0] / own.geom_friction[0, 0],
                *(model.dof_damping[:2] / own.dof_damping[:2]),
                *(model.actuator_gear[:2, 0] / own.actuator_gear[:2, 0]),
            ]
        )
    columns = np.array(factors).T

    for column in columns:
        assert stats.kstest(column, "uniform", args=(0.5, 1.5)).pvalue > LEAST_P
    for place, column in enumerate(columns):
        for other in columns[place + 1 :]:
            assert stats.pearsonr(column, other).pvalue > LEAST_P
            assert not np.allclose(column, other)


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("bipedal_walker", "gravity"),
        ("parking", "acceleration"),
        ("parking", "steering"),
        ("roundabout", "time_wanted"),
        ("roundabout", "driver_acceleration"),
        ("reacher", "gravity"),
        ("reacher", "body_mass"),
    ],
)
def test_a_factor_is_applied_once_however_often_it_is_set(name: str, drawn: str) -> None:
    """After many resets, some of which begin again, a parameter is its own value times the factor."""

    def value(factor: float, resets: int) -> Any:
        jitter = {"jitter": {"actions": 2}} if name == "parking" else {}
        simulator = Environment(in_world(catalog.load(name), drawn={drawn: [factor, factor]}, **jitter), 1)
        for seed in range(resets):
            simulator.reset(seed)
        inner: Any = simulator.simulator.unwrapped
        match name, drawn:
            case "bipedal_walker", _:
                return inner.world.gravity[1]
            case "parking", _:
                return getattr(inner.action_type, f"{drawn}_range")[1]
            case "roundabout", _:
                other = next(car for car in inner.road.vehicles if car is not inner.vehicle)
                return {"time_wanted": other.TIME_WANTED, "driver_acceleration": other.COMFORT_ACC_MAX}[drawn]
            case _, "gravity":
                return inner.model.opt.gravity[2]
            case _:
                return inner.model.body_mass.sum()

    assert value(3.0, 4) == value(3.0, 1) == pytest.approx(3.0 * value(1.0, 1))
