"""`load_environment` returns an environment of Gymnasium's, and the lists say what can be named."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import evopolicygym


@pytest.mark.filterwarnings("ignore:.*(Box|render modes).*:UserWarning")
@pytest.mark.parametrize("name", ["acrobot", "cartpole", "four_rooms", "half_cheetah", "parking"])
def test_an_environment_passes_gymnasiums_check(name: str) -> None:
    """`check_env` finds nothing wrong; drawing, for which MuJoCo needs OpenGL, has a test of its own."""
    environment = evopolicygym.load_environment(name)

    check_env(environment, skip_render_check=True)

    assert isinstance(environment, gymnasium.Env)
    assert environment.spec.max_episode_steps == environment.task.max_steps


def test_an_episode_has_the_tasks_limit() -> None:
    """The last step that the task allows is truncated, and a remade environment has the same limit."""
    environment = evopolicygym.load_environment("pendulum")
    environment.reset(seed=0)
    ends = [environment.step(environment.idle_action)[2:4] for _ in range(environment.task.max_steps)]

    assert ends == [(False, False)] * (environment.task.max_steps - 1) + [(False, True)]
    assert gymnasium.make(environment.spec).spec.max_episode_steps == environment.task.max_steps


def test_an_environment_is_drawn() -> None:
    """With a render mode it returns pictures, without one nothing, and another mode is refused."""
    environment = evopolicygym.load_environment("cartpole", render_mode="rgb_array")
    environment.reset(seed=0)
    picture = environment.render()

    assert (picture.dtype, picture.ndim, picture.shape[2]) == (np.uint8, 3, 3)
    assert evopolicygym.load_environment("cartpole").render() is None
    with pytest.raises(evopolicygym.errors.UsageError):
        evopolicygym.load_environment("cartpole", render_mode="human")


def test_an_environment_as_the_judge_steps_it() -> None:
    """What `load_environment` returned before has a name of its own, and plays the same."""
    bare, environment = evopolicygym.load_bare_environment("cartpole"), evopolicygym.load_environment("cartpole")

    assert np.array_equal(bare.reset(1), environment.reset(seed=1)[0])
    assert bare.spec == environment.task


def test_environments_and_agents_are_listed() -> None:
    """They are sorted by name, and say whether they can be played here."""
    environments, agents = evopolicygym.list_environments(), evopolicygym.list_agents()

    assert [one.name for one in environments] == sorted(one.name for one in environments)
    assert {"cartpole": True}.items() <= {one.name: one.is_installed for one in environments}.items()
    assert {one.name: one.missing for one in agents}["tuner"] == ()
