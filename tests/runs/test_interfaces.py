"""Runs through interfaces: references score the same, agents see nothing of what is hidden, and records go on alike."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import benchmark_module
from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import SubmissionPublished
from evopolicygym.core.task import BudgetRule, Task, TaskInterface
from evopolicygym.records import experiment
from evopolicygym.records.reader import read_run
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.replay import ReplayOptions, replay
from evopolicygym.runs.run import job_builder, play, resume
from evopolicygym.specs import catalog
from specs import CORE16
from whole_runs import config, played, state_kept_in

CURIOUS = """\
import json, os, sys
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        print(json.dumps([obs_space, action_space, env_meta]), sys.path, __file__)
        print(sorted(sys.modules), dict(os.environ))
    def reset(self, episode_index):
        pass
    def act(self, obs):
        print(obs)
        return [0.5, -0.5, 0.25, float("nan")]
"""
"""A policy that prints all that it is given, and fails."""
GIVEN_AWAY = (
    "fetch", "push", "robot", "mujoco", "grip", "block", "goal", "is_success", "desired", "achieved", "minigrid",
    "box2d", "highway",
)  # fmt: skip
"""Words of the environment, its spec, its spaces, its info and its packages."""


class CuriousAgent:
    """Submits a curious policy once, and keeps all that it can read."""

    max_turns = 1

    def __init__(self) -> None:
        self.read: dict[str, str] = {}

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:  # noqa: ARG002 - as agents are
        (workspace.system / "policy.py").write_text(CURIOUS)
        base = endpoint.address.base_url
        for path, body in (
            ("/task", None),
            ("/info", None),
            ("/submit", {"env_instances": "0"}),
            ("/submit", {"a": 1}),
        ):
            self.read[f"{path} {body}"] = _asked(base + path, body)
        for path in workspace.directory.rglob("*"):
            if path.is_file() and path.parent.name != "judge_client":
                self.read[str(path.relative_to(workspace.directory))] = path.read_text(encoding="latin-1")
        return Turn(AgentEnd.FINISHED)


def _asked(url: str, body: Mapping[str, Any] | None) -> str:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"Content-Type": "application/json"})) as answer:  # noqa: S310 - the judge's
            return str(answer.read().decode())
    except HTTPError as refusal:
        return str(refusal.read().decode())


def small(runs: Path, name: str, interface: str, **changes: Any) -> RunConfig:
    """Return a run of one episode of each split."""
    spec = replace(catalog.load(name), **changes)
    task = Task(spec, BudgetRule(1), validation_cases=1, held_out_cases=1, choices={"interface": interface})
    return RunConfig(task, AgentConfig("random"), runs=runs, workers=1)


def through(runs: Path, workers: int) -> RunConfig:
    """Return a small run on cartpole through a permuted interface."""
    plain = config(runs, workers=workers)
    return replace(plain, task=replace(plain.task, choices={"interface": "permuted"}))


def test_nothing_of_an_anonymous_task_is_given_away(tmp_path: Path) -> None:
    """No word of the environment is in anything that an agent and its policy read; the record has all of them."""
    agent = CuriousAgent()
    task = small(tmp_path / "runs", "fetch_push", "anonymous", reward_components=("is_success",))
    with state_kept_in(tmp_path / "state"):
        state = play(task, lambda _paths, _state: None, lambda _event, _state: None, agent)
    found = {
        (where, word) for where, text in agent.read.items() for word in GIVEN_AWAY if word in _own(where, text).lower()
    }
    summary = json.loads(agent.read["feedback/submit_000/summary.json"])
    step = json.loads(agent.read["feedback/submit_000/episodes/ep_000/trajectory.jsonl"].splitlines()[0])

    assert found == set()
    assert sorted(step["obs"]) == ["x0", "x1", "x2"]
    assert step["reward_components"] == step["info"]
    assert list(step["info"]) == ["part_0"]
    assert list(summary["reward_components_mean"]) == ["part_0"]
    assert "[0.25, " not in agent.read["feedback/submit_000/episodes/ep_000/error.txt"]
    assert json.loads(agent.read["/info None"])["interface"] == "anonymous"
    assert state.opened.task.environment.name == "fetch_push"
    assert list(state.submissions[0].episodes[0].reward_components) == ["is_success"]  # type: ignore[union-attr]


def _own(where: str, text: str) -> str:
    """Return what of a file is of this task: the rules that every agent reads mention goals."""
    return "" if where in {"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", "judge"} else text


@pytest.mark.parametrize(("name", "level"), [("reacher", "anonymous"), ("door_key", "permuted")])
def test_a_reference_plays_the_same(name: str, level: str) -> None:
    """Through a drawn interface a reference has the return, length, end and parts of the reward of the standard one."""
    interfaces = benchmark_module.load("interfaces")

    standard = interfaces.play_reference(name, 1, None)
    assert interfaces.play_reference(name, 1, interfaces.drawn(name, level, 1)) == standard


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(CORE16))
def test_all_references_play_the_same(name: str) -> None:
    """So it is on all of Core16, for twenty draws."""
    assert benchmark_module.load("interfaces").compare_returns([name], draws=20, cases=2) == 0


def test_the_agent_reference_plays_through_an_interface(tmp_path: Path) -> None:
    """The agent that plays the reference is told the interface, and its run scores as through the standard one."""
    runs = []
    with state_kept_in(tmp_path / "state"):
        for interface in ("standard", "anonymous"):
            task = replace(small(tmp_path / "runs", "acrobot", interface), agent=AgentConfig("reference"))
            runs.append(played(task).state)

    assert [run.submissions[0].episodes[0].failure for run in runs] == [None, None]  # type: ignore[union-attr]
    assert runs[0].held_out() == runs[1].held_out() is not None


def test_a_run_that_is_resumed_plays_through_the_same_interface(tmp_path: Path) -> None:
    """Two runs of an experiment, one of which is cut off and resumed on other workers, and a replay are the same."""
    with state_kept_in(tmp_path / "state"):
        whole = played(through(tmp_path / "runs", 1)).state

        def cut_off(event: object, _state: object) -> None:
            if isinstance(event, SubmissionPublished) and event.submit_index == 1:
                raise KeyboardInterrupt

        roots: list[Path] = []
        with pytest.raises(KeyboardInterrupt):
            play(through(tmp_path / "runs", 2), lambda paths, _state: roots.append(paths.root), cut_off)
        resumed = resume(roots[0], 2, lambda _paths, _state: None, lambda _event, _state: None)
        again = list(replay(roots[0], ReplayOptions(workers=1)))
        owner = experiment.of_run(roots[0], resumed.opened)
        recorded = read_run(roots[0]).state

        assert resumed.opened.interface == whole.opened.interface
        assert resumed.held_out() == whole.held_out() is not None
        assert _digests(resumed) == _digests(whole)
        assert all(case.same for case in again)
        job_builder(recorded, owner)
        changed = replace(recorded.opened, interface={**recorded.opened.interface, "reward_components": ["x"]})
        with pytest.raises(RecordError, match="interface"):
            job_builder(replace(recorded, opened=changed), owner)


def _digests(state: Any) -> list[list[str]]:
    return [[episode.trajectory_sha256 for episode in one.episodes if episode] for one in state.submissions]


def test_an_option_of_the_run() -> None:
    """The option makes the task's interface, runs must agree in it, and films of what nobody may see are refused."""
    found, _ = resolve_run_config("cartpole", "random", {"interface": "permuted"})

    assert found.task.interface is TaskInterface.PERMUTED
    assert found.task.choices == {"interface": "permuted"}
    assert resolve_run_config("cartpole", "random", {})[0].task.choices == {}
    with pytest.raises(UsageError, match="anonymous"):
        resolve_run_config("cartpole", "random", {"interface": "anonymous", "films": 1})
    with pytest.raises(UsageError, match="interface"):
        resolve_run_config("cartpole", "random", {"interface": "upside-down"})
