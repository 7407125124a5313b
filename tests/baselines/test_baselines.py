"""Trained baselines: their cases, that a training can be repeated, and that numpy plays what torch learned."""

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evopolicygym.baselines import training as training_module
from evopolicygym.baselines.export import POLICY, TRAINING, WEIGHTS, export
from evopolicygym.baselines.settings import (
    OURS,
    Algorithm,
    TrainingBudget,
    Unit,
    algorithm_named,
    budget_of,
    fitting,
    settings_of,
)
from evopolicygym.baselines.train_environment import TrainSeedSequence
from evopolicygym.baselines.training import Training, TrainingProgress, train
from evopolicygym.cli.main import app
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import to_schema
from evopolicygym.environments.environment import Environment
from evopolicygym.specs import catalog
from places import ROOT
from specs import CORE16

has_libraries = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None or importlib.util.find_spec("torch") is None,
    reason="stable-baselines3 or torch is not installed: pip install 'evopolicygym[baselines]'",
)


def trained(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that trains: it takes long, and needs libraries that the gate doesn't install."""
    return pytest.mark.nightly(has_libraries(test))


LEARNERS = [
    ("acrobot", Algorithm.PPO),  # choices
    ("pusher", Algorithm.PPO),  # actions between -2 and 2
    ("reacher", Algorithm.SAC),
    ("continuous_car", Algorithm.SAC),  # exploration that depends on the state, whose mean action is limited
    ("parking", Algorithm.SAC),  # goals; numbers are normalised
    ("roundabout", Algorithm.PPO),  # a table
    ("four_rooms", Algorithm.PPO),  # MiniGrid's view
    ("car_racing", Algorithm.PPO),  # a picture
]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have both algorithms learn early and often, in two environments at once where episodes are not counted."""

    def settings(environment: str, algorithm: Algorithm) -> dict[str, Any]:
        more = {
            Algorithm.PPO: {"n_steps": 32, "batch_size": 16, "n_epochs": 2},
            Algorithm.SAC: {"learning_starts": 20, "train_freq": 8, "gradient_steps": 4, "batch_size": 16},
        }
        return {**settings_of(environment, algorithm), **more[algorithm], "parallel": 2}

    monkeypatch.setattr(training_module, "settings_of", settings)


@pytest.fixture
def resets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the seeds of all resets of any environment, as they come."""
    seeds: list[int] = []
    reset = Environment.reset

    def noted(environment: Environment, seed: int) -> Any:
        seeds.append(seed)
        return reset(environment, seed)

    monkeypatch.setattr(Environment, "reset", noted)
    return seeds


def small(name: str, algorithm: Algorithm, amount: float = 64, unit: Unit = Unit.STEPS, seed: int = 0) -> Training:
    return train(catalog.load(name), algorithm, TrainingBudget(amount, unit), seed)


def module_in(project: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("exported", project / POLICY)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def shake(training: Training) -> None:
    """Give a network numbers as large as after a long training, and a normaliser what to do."""
    import torch

    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in training.model.policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


@trained
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("name", "algorithm"), LEARNERS, ids=[f"{name}-{one}" for name, one in LEARNERS])
def test_numpy_plays_what_torch_learned(name: str, algorithm: Algorithm, tmp_path: Path) -> None:
    """The exported policy's actions are torch's, to 1e-5, along an episode that it plays."""
    training = small(name, algorithm)
    shake(training)
    export(training, tmp_path / "project")
    environment = Environment(training.spec)
    observation = environment.reset(derive(PUBLIC_KEY, name).seeds[Split.TRAIN][0])
    action_schema = to_schema(environment.action_space)
    obs_schema = to_schema(environment.observation_space)
    policy = module_in(tmp_path / "project").Policy(obs_schema, action_schema, {})
    policy.reset(0)
    for _ in range(10):
        played = policy.act(observation)
        assert played == pytest.approx(torch_action(training, action_schema, obs_schema, observation), abs=1e-5)
        action = played if action_schema["type"] == "Discrete" else np.asarray(played, action_schema["dtype"])
        observation = environment.step(action)[0]
    environment.close()


def torch_action(training: Training, action_schema: dict[str, Any], obs_schema: dict[str, Any], seen: Any) -> Any:
    from evopolicygym.baselines.project.policy import see

    picture, vector = see(obs_schema, seen)
    shown = {"picture": picture, "vector": vector} if picture.size else vector
    unit = training.model.predict(training.normaliser.normalize_obs(shown), deterministic=True)[0]
    if action_schema["type"] == "Discrete":
        return int(unit) + action_schema["start"]
    low, high = np.array(action_schema["low"]), np.array(action_schema["high"])
    return low + (unit.astype(np.float64) + 1) / 2 * (high - low)


@trained
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("name", "algorithm"), [("cartpole", Algorithm.PPO), ("reacher", Algorithm.SAC)])
def test_episodes_are_train_cases_and_counted(name: str, algorithm: Algorithm, resets: list[int]) -> None:
    """A budget of episodes plays the first train cases, each once and to its end, and no other."""
    training = small(name, algorithm, 6, Unit.EPISODES)
    looked_at, *played = resets

    assert played == list(derive(PUBLIC_KEY, name).seeds[Split.TRAIN][:6])
    assert looked_at == played[0]  # for its spaces; not a step of it is played
    assert (training.episodes, len(training.progress.returns)) == (6, 6)


@trained
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", ["cartpole", "four_rooms"])
def test_hidden_cases_are_never_met(name: str, resets: list[int]) -> None:
    """A training meets train cases of the public split only, in order, and none of validation or held-out."""
    small(name, Algorithm.PPO, 2000)
    cases = derive(PUBLIC_KEY, name).seeds

    assert len(resets) > 10
    assert set(resets) <= set(cases[Split.TRAIN])
    assert not set(resets) & {*cases[Split.VALIDATION], *cases[Split.HELD_OUT]}


def test_train_cases_are_dealt_round() -> None:
    """However many episodes a training has, the deal knows no seed but those of train cases."""
    deal, train_seeds = TrainSeedSequence("reacher"), derive(PUBLIC_KEY, "reacher").seeds[Split.TRAIN]

    assert [deal.next() for _ in range(3 * len(train_seeds))] == [*train_seeds] * 3


def test_no_case_is_dealt_beyond_the_budget() -> None:
    """When all episodes of a budget have been played, there is no more."""
    deal = TrainSeedSequence("reacher", 2)
    for _ in range(2):
        deal.next()

    assert deal.is_exhausted
    with pytest.raises(LookupError, match="2 episodes"):
        deal.next()


@trained
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("name", "algorithm"), [("cartpole", Algorithm.PPO), ("reacher", Algorithm.SAC)])
def test_a_training_can_be_repeated(name: str, algorithm: Algorithm, tmp_path: Path) -> None:
    """The same seed gives the same weights, bit for bit; another seed gives others."""
    weights = []
    for place, seed in enumerate((3, 3, 4)):
        training = small(name, algorithm, 200, seed=seed)
        assert training.updates > 0
        export(training, tmp_path / str(place))
        weights.append((tmp_path / str(place) / WEIGHTS).read_bytes())

    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


@trained
def test_it_learns(tmp_path: Path) -> None:
    """Trained as it ships, PPO balances the pole several times longer at the end than at the beginning."""
    told = export(small("cartpole", Algorithm.PPO, 16_000), tmp_path / "project")

    assert told["mean_return_of_last_episodes"] > 3 * told["mean_return_of_first_episodes"]


@trained
@pytest.mark.usefixtures("short")
def test_minutes_are_told_as_steps(tmp_path: Path) -> None:
    """A training ends after so much processor time and tells the steps that it was; so many train the same again."""
    seen: list[TrainingProgress] = []
    by_time = train(catalog.load("cartpole"), Algorithm.PPO, TrainingBudget(0.01, Unit.MINUTES), 0, seen.append)
    told = export(by_time, tmp_path / "by_time")
    export(small("cartpole", Algorithm.PPO, told["steps"]), tmp_path / "by_steps")

    assert by_time.progress.seconds >= 0.6
    assert told["label"] == "PPO 0.01 minutes"
    assert told["steps"] == seen[-1].steps > 0
    assert (tmp_path / "by_time" / WEIGHTS).read_bytes() == (tmp_path / "by_steps" / WEIGHTS).read_bytes()


@trained
def test_choices_are_refused_to_sac() -> None:
    """SAC has no use for an environment of choices, and says what has."""
    with pytest.raises(UsageError, match=r"'acrobot'.*3.*PPO"):
        small("acrobot", Algorithm.SAC)


@trained
def test_what_no_network_sees_is_refused() -> None:
    """An environment whose observations no network here is built for is refused before anything is trained."""
    lake = replace(catalog.load("cartpole"), name="lake", id="FrozenLake-v1")
    with pytest.raises(UsageError, match="'lake'"):
        train(lake, Algorithm.PPO, TrainingBudget(5, Unit.EPISODES), 0)


@trained
@pytest.mark.usefixtures("short")
def test_trained_and_scored_from_the_command_line(tmp_path: Path) -> None:
    """`train` writes a project that tells how it came to be, and the judge scores it as it scores everyone's."""
    project = tmp_path / "project"
    words = ["train", "baseline", "cartpole", "--episodes", "4", "-o", str(project)]
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    agent = ["--agent", "policy", "--option", f"project={project}", "--model", told["label"]]
    small = [
        "--budget",
        "1",
        "--validation",
        "1",
        "--held-out",
        "2",
        "--workers",
        "1",
        "--runs",
        str(tmp_path / "runs"),
    ]
    scored = json.loads(CliRunner().invoke(app, ["run", "cartpole", *agent, *small, "--json"]).stdout)
    again = CliRunner().invoke(app, words)

    assert told == json.loads((project / TRAINING).read_text(encoding="utf-8"))
    assert (told["label"], told["episodes"], told["seed"]) == ("PPO 4 episodes", 4, 0)
    assert {"stable_baselines3", "torch", "numpy", "gymnasium"} <= told["versions"].keys()
    assert scored["submissions"][0]["failed_episodes"] == 0
    assert len(scored["outcome"]["held_out_returns"]) == 2
    assert isinstance(again.exception, UsageError)


@trained
def test_the_lot_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The script that trains and scores baselines leaves policies, runs and scores, and makes none of them anew."""
    script = ROOT / "benchmarks" / "train_baselines.py"
    asked = ["--episodes", "2", "--minutes", "0", "--environment", "reacher", "--held-out", "2"]
    words = [sys.executable, str(script), str(tmp_path), *asked]
    outputs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    (score,) = tmp_path.glob("scores/reacher/*.json")
    run = tmp_path / json.loads(score.read_text(encoding="utf-8"))["run"]

    assert outputs[0].startswith("train reacher")
    assert outputs[1].startswith("environment")
    assert outputs[0].endswith(outputs[1])
    assert [path.parent for path in tmp_path.glob("runs/**/run.json")] == [run]
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["agent"]["model"] == "PPO/SAC 2 episodes"


def test_every_environment_has_settings() -> None:
    """Every environment of Core16 has an algorithm that fits, and the settings of its networks."""
    needed = {"policy_layers", "value_layers", "activation", "filters"}

    assert [name for name in CORE16 if not needed <= settings_of(name, fitting(name)).keys()] == []


@trained
def test_settings_are_known() -> None:
    """There is no setting that nothing reads."""
    import stable_baselines3

    for name in CORE16:
        algorithm = fitting(name)
        known = signature(getattr(stable_baselines3, algorithm.upper()).__init__).parameters.keys()
        assert settings_of(name, algorithm).keys() - OURS <= known, name


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: budget_of(None, None, None), "--episodes, --steps or --minutes"),
        (lambda: budget_of(5, None, 1), "5 episodes.*1 minute"),
        (lambda: budget_of(0, None, None), "--episodes.*0"),
        (lambda: algorithm_named("dqn"), "'dqn'.*ppo, sac"),
    ],
)
def test_nonsense_is_refused(ask: Callable[[], object], message: str) -> None:
    """What can't be trained is refused with what could."""
    with pytest.raises(UsageError, match=message) as refused:
        ask()
    assert refused.value.exit_code == 2


def test_a_missing_extra_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is not installed, what installs it is said, and nothing is written."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "evopolicygym.baselines.networks", raising=False)
    left = CliRunner().invoke(
        app, ["train", "baseline", "cartpole", "--episodes", "4", "-o", str(tmp_path / "project")]
    )

    assert "evopolicygym[baselines]" in str(left.exception)
    assert not (tmp_path / "project").exists()


def test_the_policy_needs_numpy_alone() -> None:
    """What is laid into a project is short, and imports the standard library and numpy."""
    text = files("evopolicygym.baselines.project").joinpath(POLICY).read_text(encoding="utf-8")
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add(str(node.module).split(".")[0])

    assert named <= {*sys.stdlib_module_names, "numpy"}
    assert len(text.splitlines()) < 100
