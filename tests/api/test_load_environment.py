"""`load_environment` returns an environment of Gymnasium's, and the lists say what can be named."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import evopolicygym
from evopolicygym.core.task import TaskText
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.specs import catalog, pack_catalog


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


@pytest.mark.parametrize("imports", ["evopolicygym, gymnasium", "gymnasium, evopolicygym"])
def test_a_task_is_made_by_its_id(imports: str) -> None:
    """In whatever order both are imported, gymnasium.make returns the environment that the task plays."""
    program = f"import {imports}; print(gymnasium.make('evopolicygym/pendulum').unwrapped.task.max_steps)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.split() == [str(evopolicygym.load_environment("pendulum").task.max_steps)]


def test_every_task_has_an_id() -> None:
    """Shipped specs and tasks of packs are registered, with nothing else in their namespace."""
    tasks = {task.name for name in pack_catalog.names() for task in pack_catalog.load(name).tasks}
    registered = {one.removeprefix("evopolicygym/") for one in gymnasium.registry if one.startswith("evopolicygym/")}

    assert registered == tasks | set(filter(catalog.is_built_in, catalog.names()))


def test_a_task_of_a_pack_is_made_by_its_id() -> None:
    """It has its pack's limit, also where it is made once more from its registration, and other names are refused."""
    environment = gymnasium.make("evopolicygym/Taxi-v4")

    assert environment.spec.max_episode_steps == gymnasium.make(environment.spec).spec.max_episode_steps == 200
    assert evopolicygym.load_bare_environment("Taxi-v4").spec == environment.unwrapped.task
    with pytest.raises(gymnasium.error.NameNotFound, match="Did you mean: `pendulum`"):
        gymnasium.make("evopolicygym/pendulun")
    with pytest.raises(evopolicygym.errors.UsageError, match="evopolicygym packs install nle"):
        gymnasium.make("evopolicygym/NetHackScore-v0")


@pytest.mark.parametrize("name", ["pendulum", "Taxi-v4"])
def test_a_run_knows_the_same_ids(name: str) -> None:
    """A run of a task's id in Gymnasium is a run of the task, with its texts and anchors."""
    assert resolve_environment(f"evopolicygym/{name}", TaskText.FULL) == resolve_environment(name, TaskText.FULL)
