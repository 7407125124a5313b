"""Training sessions in this process: what a seed names, what an action does, and rewards that add up to the score."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.analysis.ranking.known_scale import KnownScores, known_scale
from evopolicygym.core.cases import SEED_BITS, identity_of_secret
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.score import normalised
from evopolicygym.core.task import TaskInterface
from evopolicygym.records.experiment import SECRET_VARIABLE, accept_secret
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.specs.identity import environment_identity
from evopolicygym.training.draw import Distribution, TrainingSplit, draw, tasks_of
from evopolicygym.training.environment import TextEnvironment, TrainingEnvironment
from evopolicygym.training.rewards import Shaping, scale_of
from evopolicygym.training.sessions import TrainingOptions
from training_clients import POLICY, STRONG

STANDARD: TrainingOptions = {
    "tasks": ["cartpole"],
    "interfaces": ["standard"],
    "texts": ["terse"],
    "budgets": [16],
    "validation": 3,
    "held_out": 4,
    "workers": 1,
}
WEAK = "int(obs[3] > 0)"
"""The action of a policy for cartpole that beats random play."""


def policy(action: str) -> dict[str, Any]:
    return {"action": "write", "arguments": {"path": "policy.py", "content": POLICY.format(action=action)}}


def submit(episodes: int, **arguments: int) -> dict[str, Any]:
    return {"action": "submit", "arguments": {"episodes": episodes, **arguments}}


LOOK: Mapping[str, Any] = {"action": "look"}
FINISH: Mapping[str, Any] = {"action": "finish"}


@pytest.fixture
def loop(request: pytest.FixtureRequest) -> Iterator[TextEnvironment]:
    """A loop of texts with the rule of the test's parameter."""
    options: TrainingOptions = {**STANDARD, **getattr(request, "param", {})}
    environment = TextEnvironment(**options)
    environment.reset(seed=1)
    yield environment
    environment.close()


def known(environment: TextEnvironment) -> dict[str, Any]:
    """Return what is known of an environment's session."""
    assert environment._seat is not None
    return environment._seat.document()


@pytest.mark.parametrize("loop", [{"shaping": shaping, "price": 0.2} for shaping in Shaping], indirect=True)
def test_rewards_add_up_to_the_score(loop: TextEnvironment) -> None:
    """However submissions are shaped, the sum is the normalised held-out score less the cost of the episodes."""
    steps = [submit(2), LOOK, policy(STRONG), submit(6), LOOK, FINISH]
    outcomes = [loop.step(step) for step in steps]
    found = known(loop)

    assert [done for _, _, done, _, _ in outcomes] == [False] * 5 + [True]
    spec = catalog.load("cartpole")
    assert spec.random_anchor is not None
    score = normalised(found["score"], spec.random_anchor.mean, 500.0)
    assert sum(reward for _, reward, _, _, _ in outcomes) == pytest.approx(score - 0.2 * 8 / 16)
    assert found["normalised"] == score > 0.9
    assert sum(named["cost"] for *_, named in outcomes) == pytest.approx(0.2 * 8 / 16)
    assert sum(named["train_gain"] for *_, named in outcomes) == pytest.approx(found["worth"]["train"])


def test_a_better_policy_is_worth_more() -> None:
    """Random play, a weak policy and a strong one are ordered by each reward."""
    environment = TextEnvironment(**STANDARD, shaping="validation")
    worths = []
    for action in (None, WEAK, STRONG):
        environment.reset(seed=2)
        if action:
            environment.step(policy(action))
        environment.step(submit(8))
        environment.step(FINISH)
        worths.append(known(environment)["worth"])
    environment.close()

    for name in ("train", "validation", "held_out", "value"):
        assert all(worse[name] < better[name] for worse, better in pairwise(worths)), (name, worths)


@pytest.mark.nightly
def test_rewards_are_the_leaderboards(tmp_path: Path) -> None:
    """A run with a session's cases scores its checkpoint alike; ``held_out`` is ``leaderboard --normalise known``'s."""
    secret = draw(Distribution(TrainingSplit.BENCHMARK, ("acrobot",)), 1).secret
    shared = {"name": "same", "experiment": identity_of_secret(secret), "secret": secret.hex(), "seed_bits": SEED_BITS}
    accept_secret(tmp_path, "same", {SECRET_VARIABLE: json.dumps(shared)})
    sizes = {"validation": 3, "held_out": 4, "workers": 1}
    environment = TextEnvironment(
        **{**STANDARD, **sizes, "split": "benchmark", "tasks": ["acrobot"], "shaping": "validation"}
    )
    worths = {}
    for agent in ("random", "tuner", "reference"):
        run = evopolicygym.run("acrobot", agent, experiment="same", runs=tmp_path, budget=32, **sizes)
        assert run.selected_submission is not None
        environment.reset(seed=1)
        for path, content in (run.submissions[run.selected_submission].files or {}).items():
            environment.step({"action": "write", "arguments": {"path": path, "content": content.decode()}})
        environment.step(submit(8))
        environment.step(FINISH)
        found = known(environment)
        assert found["score"] == run.score
        worths[agent] = found["worth"]
    environment.close()

    board = evopolicygym.leaderboard(tmp_path, normalise="known").records
    places = {row["entry"]: row["normalised"] for row in board}
    for agent, worth in worths.items():
        assert places[agent] == pytest.approx(worth["held_out"], abs=1e-12)
    for name in ("train", "validation", "held_out", "value"):
        values = [worth[name] for worth in worths.values()]
        assert values == sorted(set(values)), (name, worths)


def test_a_seed_is_played_the_same_way_again() -> None:
    """Two sessions of a seed have the same task, interface, cases and returns; another seed has others."""
    environment = TextEnvironment(tasks=["cartpole"], budgets=[8], workers=1)
    seen = []
    for seed in (3, 3, 4):
        task, _ = environment.reset(seed=seed)
        environment.step(submit(8))
        seen.append((task, known(environment)["submissions"][0]["returns"]))
    environment.close()

    assert seen[0] == seen[1] != seen[2]
    assert seen[0][1] != seen[2][1]


def gymnasium_id(name: str) -> str:
    """Return the id that gymnasium registered for a task."""
    if found := pack_catalog.find_listed(name):
        return found[1].id
    return catalog.load(name).registered_id


def test_splits_have_no_task_in_common() -> None:
    """Nothing that Core16 or frontier16 plays is trained on, whatever its name."""
    ids = {split: {gymnasium_id(name) for name in tasks_of(split)} for split in TrainingSplit}

    for one, other in combinations(TrainingSplit, 2):
        assert not ids[one] & ids[other]
    assert len(tasks_of(TrainingSplit.BENCHMARK)) == 32


def test_the_scale_is_the_leaderboards() -> None:
    """Where no policy is known to beat random play, there is none."""
    for name in ("acrobot", "reacher"):
        spec = catalog.load(name)
        assert scale_of(spec) == known_scale(name, environment_identity(spec), KnownScores.of(spec))
    assert scale_of(catalog.load("cartpole")).best == 500
    with pytest.raises(UsageError, match="has no scale"):
        scale_of(replace(catalog.load("acrobot"), random_anchor=None, idle_anchor=None, name="own"))


def test_seeds_draw_everything() -> None:
    """Among a hundred seeds, each task, interface and budget occurs, and no two have the same cases."""
    distribution = Distribution(tasks=("cartpole", "pendulum"))
    drawn = [draw(distribution, seed).document for seed in range(100)]

    assert {each["task"] for each in drawn} == {"cartpole", "pendulum"}
    assert {each["interface"] for each in drawn} == set(TaskInterface)
    assert {each["budget"] for each in drawn} == {8, 16, 32, 64}
    assert len({draw(distribution, seed).secret for seed in range(100)}) == 100


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tasks": ["acrobot"]}, "'acrobot': expected one of the split train, got one of benchmark"),
        ({"budgets": [4]}, "Invalid budget: expected 8 to 64 episodes, got 4"),
        ({"interfaces": []}, "Invalid interfaces: expected at least one"),
        ({"interfaces": ["odd"]}, "Invalid interfaces: expected standard, permuted, anonymous, got 'odd'"),
        ({"shaping": "odd"}, "Invalid shaping: expected none, train, validation, got 'odd'"),
        ({"price": 2}, "Invalid price: expected a number from 0 to 1, got 2"),
        ({"sessions": 0}, "Invalid sessions: expected a number above 0, got 0"),
        ({"url": "http://127.0.0.1:1", "workers": 1}, "Invalid workers: expected none beside a url"),
        ({"task": "cartpole"}, "no option of training named 'task'. Did you mean 'tasks'?"),
    ],
)
def test_an_invalid_option_is_refused(given: dict[str, Any], message: str) -> None:
    """A task of another split is named with its split."""
    with pytest.raises(UsageError, match=re.escape(message)):
        TextEnvironment(**given)


def test_an_unknown_task_is_refused() -> None:
    """The split's tasks are listed."""
    with pytest.raises(UnknownName, match="cartpole"):
        TextEnvironment(tasks=["carpole"])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"action": "fly"}, "there is no action 'fly'; there are write, submit, look, finish"),
        (submit(17), "one submission may play at most 16"),
        (submit(0), "episodes must be an integer from 1, not 0"),
        (submit(2, first_case=63), "outside 0 to 63"),
        ({"action": "submit", "arguments": {"episodes": "2"}}, "episodes must be an integer, not '2'"),
        ({"action": "submit", "arguments": {"cases": 2}}, "submit has no argument 'cases'; it takes episodes"),
        ({"action": "write", "arguments": {"path": "policy.py"}}, "write needs content"),
        ({"action": "write", "arguments": {"path": "../policy.py", "content": ""}}, "path must be a path below"),
        ({"action": "write", "arguments": {"path": "a.py", "content": "x" * (1 << 20)}}, "than 32 files or 1 MiB"),
        ({"action": "look", "arguments": {"step": -1}}, "step must be an integer from 0"),
        ("/submit 40", "at most 16"),
    ],
)
def test_an_invalid_action_costs_nothing(loop: TextEnvironment, step: str | dict[str, Any], message: str) -> None:
    """It is said what was expected, and the session is as before."""
    before = known(loop)
    text, reward, done, _, _ = loop.step(step)

    assert text.startswith("Refused: ")
    assert message in text
    assert (reward, done) == (0.0, False)
    assert known(loop) == before


def test_a_text_writes_submits_and_looks(loop: TextEnvironment) -> None:
    """A model without tool calls acts by a block of Python and a command."""
    text, reward, _, _, _ = loop.step(f"I hold it.\n\n```python\n{POLICY.format(action=STRONG)}```\n\n/submit 2\n")

    assert "submission 0: mean return 500.00 of 2 episodes" in text
    assert "14 of 16 episodes left" in text
    assert reward == pytest.approx(1.0)


def test_a_failing_policy_is_told_why(loop: TextEnvironment) -> None:
    """What keeps a policy from loading, and what it raises and prints while it plays, is in what its agent looks at."""
    loop.step({"action": "write", "arguments": {"path": "policy.py", "content": "import nothing_like_it"}})
    text, reward, _, _, _ = loop.step(submit(1))
    assert "No module named 'nothing_like_it'" in text
    assert reward == 0

    loop.step(policy("print('seen', len(obs)) or 1 // 0"))
    text, *_ = loop.step(submit(1))
    assert "ZeroDivisionError" in text
    assert "stdout: seen 4" in text


def test_a_policy_is_sandboxed(loop: TextEnvironment) -> None:
    """A policy in training sees neither this machine's files nor a network."""
    loop.step(policy("__import__('socket').create_connection(('127.0.0.1', 9))"))
    text, *_ = loop.step(submit(1))
    assert "1 of 1 episodes failed" in text

    loop.step(policy(f"open({str(Path(__file__))!r}).read()"))
    text, *_ = loop.step(submit(1))
    assert "FileNotFoundError" in text or "PermissionError" in text


def test_a_spent_budget_ends_the_session(loop: TextEnvironment) -> None:
    """Nothing more is accepted, and the score comes without a finish."""
    _, _, done, _, _ = loop.step(submit(16))
    assert done
    assert known(loop)["score"] is not None
    text, *_ = loop.step(submit(1))
    assert text.startswith("Refused: The run is closed")


def test_a_session_without_a_submission_is_worth_nothing(loop: TextEnvironment) -> None:
    """Finishing at once is done at once."""
    text, reward, done, _, _ = loop.step(FINISH)
    assert (reward, done) == (0.0, True)
    assert "over" in text


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ("late", "come 1 step late"),
        pytest.param("noisy", "has noise", marks=pytest.mark.nightly),
        pytest.param("stirred", "is disturbed", marks=pytest.mark.nightly),
    ],
)
def test_a_world_is_played(world: str, said: str) -> None:
    """Its task says so, a seed is the same session again, and its scale is measured in it, not that of the standard."""
    environment = TextEnvironment(**STANDARD, worlds=[world])
    seen = []
    for _ in range(2):
        task, _ = environment.reset(seed=7)
        steps = [environment.step(step) for step in (policy(STRONG), submit(4), FINISH)]
        found = known(environment)
        seen.append((task, steps, found["submissions"][0]["returns"], found["score"]))
    environment.close()

    spec = catalog.load("cartpole")
    assert spec.random_anchor is not None
    assert seen[0] == seen[1]
    assert said in seen[0][0]
    assert found["world"] == world
    assert found["scale"]["best"] == 500
    assert found["scale"]["low"] != spec.random_anchor.mean
    rewards = [reward for _, reward, _, _, _ in steps]
    assert sum(rewards) == pytest.approx(found["worth"]["held_out"])
    assert 0 < found["worth"]["held_out"] <= 1


def test_an_event_log_is_kept_where_asked(tmp_path: Path) -> None:
    """One file for each session, in which every event is a line; nothing else is left of a session."""
    environment = TextEnvironment(**STANDARD, keep=tmp_path / "logs")
    environment.reset(seed=5)
    environment.step(submit(2))
    environment.step(FINISH)
    environment.close()

    (log,) = (tmp_path / "logs").iterdir()
    events = [json.loads(line)["event"]["kind"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert events[0] == "run_opened"
    assert events[-1] == "run_finished"


def test_the_methods_are_the_tools() -> None:
    """The class for TRL: a submission returns at once, a look waits, and the reward is the session's value."""
    environment = TrainingEnvironment(**STANDARD)
    assert environment.get_reward() is None
    assert "Task: cartpole" in environment.reset(seed=6, prompt="ignored")
    assert "bytes written" in environment.write("policy.py", POLICY.format(action=STRONG))
    assert environment.submit(4)
    assert "mean return 500.00" in environment.look()
    assert environment.get_reward() == 1.0
    tools = {name for name in dir(environment) if not name.startswith("_")}
    assert tools == {"reset", "write", "submit", "look", "finish", "get_reward"}
