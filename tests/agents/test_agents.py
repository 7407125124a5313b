"""The players: the built-in ones against a real judge, programs as agents, and what a desk starts them with."""

import json
import sys
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from evopolicygym.agents.base import AGENTS, make
from evopolicygym.agents.builtin import random_search, tuner
from evopolicygym.agents.builtin.scripted import Delete, Finish, ScriptedAgent, Submit, Write
from evopolicygym.agents.kit import linear_search, program
from evopolicygym.agents.kit.judge_client import Info, JudgeClient, SubmissionsClosed
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, Turn, Workspace
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import AgentError, RequestRefused, UsageError
from evopolicygym.core.event import SubmissionCharged
from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    action_reader,
    sample,
    to_schema,
)
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.specs import catalog
from fakes import OpenRun, RunMaker
from lifeline import Lifeline
from whole_runs import config, played

SPACES: tuple[Space, ...] = (
    Discrete(3, 2),
    Box((2,), "float32", (-1.0, 0.0), (1.0, np.inf)),
    Box((2, 2), "uint8", 0.0, 255.0),
    MultiDiscrete((2, 3), (0, 1)),
    MultiBinary((3,)),
    Text(5),
    Tuple((Discrete(2), Box((1,), "float64", -1.0, 1.0))),
    Dict((("goal", Discrete(2)), ("force", Box((3,), "float32", -2.0, 2.0)))),
)


def desk(run: OpenRun, isolation: str = "none") -> Workspace:
    return Workspace(run.paths.workspace, run.paths.root / "logs" / "agent.log", 0, isolation)


def turn(run: OpenRun, agent: Agent) -> Turn:
    return agent.play(desk(run), run.door, Event())


def command(*words: str) -> Agent:
    return make(AgentConfig("command", command=words))


def module(*place: str) -> dict[str, Any]:
    """Return the names that a file laid into a workspace defines."""
    with as_file(files("evopolicygym").joinpath(*place)) as file:
        names: dict[str, Any] = {"__file__": str(file), "__name__": "policy"}
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)  # noqa: S102 - our own file
    return names


def submissions(run: OpenRun) -> list[Sequence[int]]:
    return [submission.charged.env_instances for submission in run.session.state.submissions]


def test_names() -> None:
    """The agents that a config can name are the files that make one."""
    assert AGENTS.names() == [
        "acp", "claude_code", "codex", "command", "function", "gemini", "gepa", "inspect_ai", "kimi_code",
        "mini_swe_agent", "neutral", "opencode", "openevolve", "outside", "policy", "qwen", "random", "random_search",
        "reference", "rewrite", "scripted", "shell", "tuner",
    ]  # fmt: skip


def test_random_spends_the_budget_in_order(new_run: RunMaker) -> None:
    """The random agent leaves the policy as it is and plays the train cases in order, 16 at most at once."""
    run = new_run(budget=BudgetRule(40), train_cases=20)
    ended = turn(run, make(AgentConfig("random")))

    assert ended.end is AgentEnd.FINISHED
    assert submissions(run) == [tuple(range(16)), (*range(16, 20), *range(12)), tuple(range(12, 20))]


def test_random_keeps_to_the_rules_of_portions(new_run: RunMaker) -> None:
    """Where submissions have a size, the random agent keeps to it, and spends what is left whole."""
    run = new_run(budget=BudgetRule(8, min_per_submission=3, max_per_submission=3))
    turn(run, make(AgentConfig("random")))

    assert submissions(run) == [(0, 1, 2), (3, 4, 5), (6, 7)]


def test_random_again_is_free(new_run: RunMaker) -> None:
    """An agent that is started again after a crash asks with the same keys and is charged nothing."""
    run = new_run()
    journals = [(turn(run, make(AgentConfig("random"))), run.journal())[1] for _ in range(2)]

    assert journals[0] == journals[1]


def test_script_edits_and_submits(new_run: RunMaker) -> None:
    """A script's steps are taken in order: files come and go, the policy of the moment is played."""
    run = new_run()
    steps = [
        Write("part/new.txt", "new"), Submit((0,)), Write("policy.py", "2"), Delete("part/new.txt"), Submit((1, 1)),
    ]  # fmt: skip
    ended = turn(run, ScriptedAgent(steps))

    assert ended.end is AgentEnd.FINISHED
    assert "5" in ended.message
    assert [submission.returns for submission in run.session.state.submissions] == [(1.0,), (2.0, 2.0)]
    assert not (run.paths.system / "part" / "new.txt").exists()


def test_script_from_options(new_run: RunMaker) -> None:
    """A config's table of steps is the same script."""
    run = new_run(finish_allowed=True)
    steps = [{"submit": [0, 2], "key": "mine"}, {"write": "policy.py", "content": "3"}, {"finish": True}]
    ended = turn(run, make(AgentConfig("scripted", options={"steps": steps})))

    assert ended.end is AgentEnd.FINISHED
    assert (submissions(run), run.session.done) == ([(0, 2)], True)


def test_script_that_cannot_be_read() -> None:
    """A step of no known kind is refused before anything is played."""
    with pytest.raises(UsageError, match="step 0"):
        make(AgentConfig("scripted", options={"steps": [{"fly": True}]}))


def test_refusal_ends_a_turn(new_run: RunMaker) -> None:
    """What the judge refuses ends a script as crashed, in the judge's words."""
    ended = turn(new_run(), ScriptedAgent([Finish(finish=True)]))

    assert ended.end is AgentEnd.CRASHED
    assert "8 episodes" in ended.message


def test_closed_run_ends_a_turn(new_run: RunMaker) -> None:
    """A run that is closed has nothing more to do for an agent, which is no failure."""
    run = new_run(finish_allowed=True)
    ended = turn(run, ScriptedAgent([Submit((0,)), Finish(finish=True), Submit((1,))]))

    assert ended.end is AgentEnd.FINISHED


def test_stop_interrupts_waiting(new_run: RunMaker) -> None:
    """An agent that waits for a submission leaves when it is asked to."""
    run, stop = new_run(), Event()
    run.executor.gate.clear()
    run.writer.listen(lambda event, _state: stop.set() if isinstance(event, SubmissionCharged) else None)
    ended = ScriptedAgent([Submit((0,))]).play(desk(run), run.door, stop)
    run.executor.gate.set()

    assert ended.end is AgentEnd.STOPPED


def test_referee_decodes(new_run: RunMaker) -> None:
    """The judge's answers arrive typed; refusals and a closed run are told apart."""
    run = new_run(finish_allowed=True)
    referee = JudgeClient(run.door.address, Event())
    summary = referee.submit([0, 3], "key")

    assert (summary.submit_id, summary.status, summary.remaining_budget, summary.returns) == (0, "ok", 6, (1.0, 1.0))
    with pytest.raises(RequestRefused, match="16"):
        referee.submit([16], "other")
    referee.finish()
    with pytest.raises(SubmissionsClosed):
        referee.submit([0], "late")


@pytest.mark.parametrize(("wanted", "remaining", "expected"), [(1, 9, 2), (3, 9, 3), (9, 9, 4), (9, 3, 3), (2, 1, 1)])
def test_portions(wanted: int, remaining: int, expected: int) -> None:
    """A portion is as near to what is wanted as the least, the most and what is left allow."""
    info = Info(9, 9, min_episodes=2, max_episodes=4, n_cases=5, is_finalized=False, env_meta={})

    assert info.portion(wanted, remaining) == expected


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_starter_plays_every_space(space: Space) -> None:
    """The policy that every agent starts from draws good actions of every space, the same for the same seed."""
    policy = module("runs", "workspace_template", "system", "policy.py")["Policy"]({}, to_schema(space), {})
    policy.reset(0)
    for _ in range(20):
        _, clipped = action_reader(space)(policy.act(None))
        assert not clipped


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_tuned_policy_reads_and_plays_every_space(space: Space) -> None:
    """The tuner's policy makes good actions of any space from observations of any space, whatever the weights."""
    names = module("agents", "kit", "tuner_policy", "policy.py")
    schema = to_schema(space)
    seen = names["flattener"](schema)(sample(space, np.random.default_rng(0)))
    scores = np.full(names["count_scores"](schema), 0.7).tolist()
    action = names["action_reader"](schema)(scores)
    _, clipped = action_reader(space)(action)

    assert (seen.ndim, scores, clipped) == (1, [], False)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_tuned_policy_can_choose_every_action(count: int) -> None:
    """Of one more actions than scores, the middle one is chosen where no score is above zero, else the largest's."""
    names = module("agents", "kit", "tuner_policy", "policy.py")
    choose, middle = names["choose"], count // 2
    others = [value for value in range(count) if value != middle]

    assert choose([-1.0] * (count - 1)) == middle
    assert [choose(list(scores)) for scores in np.eye(count - 1)] == others


def test_tuner_tells_no_ties() -> None:
    """Candidates that failed alike are no parents; where all are alike, there is nothing to tell."""
    assert tuner._informative([2, 0, 1, 3, 4, 5], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0], 4) == [2, 2, 4, 5]
    assert tuner._informative([0, 1, 2, 3, 4, 5], [5.0, 4.0, 3.0, 2.0, 1.0, 0.0], 4) == [0, 1, 4, 5]
    assert tuner._informative([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0], 4) == []


@pytest.mark.parametrize(("steps", "numbers"), [(1, 30), (5, 30), (50, 30), (3, 2), (4, 0)])
def test_tuner_normalises_whatever_was_seen(steps: int, numbers: int) -> None:
    """However little a probe has seen, there are features of every observation, at most ten, all finite."""
    view = linear_search.normalised(np.random.default_rng(0).normal(size=(steps, numbers)))
    projection = np.reshape(view.projection, (len(view.projection), numbers))

    assert len(view.center) == numbers
    assert min(numbers, 1) <= len(projection) <= 10
    assert np.isfinite(projection).all()


@pytest.mark.parametrize(
    ("agent", "budget"),
    [
        ("tuner", 16),
        *(pytest.param("tuner", budget, marks=pytest.mark.nightly) for budget in (1, 5)),
        *(pytest.param("random_search", budget, marks=pytest.mark.nightly) for budget in (1, 5, 16)),
    ],
)
def test_linear_search_spends_small_budgets(tmp_path: Path, agent: str, budget: int) -> None:
    """However few episodes there are, the tuner and random search spend them all and leave something to choose."""
    task = Task(catalog.load("cartpole"), BudgetRule(budget), validation_cases=1, held_out_cases=2)
    state = played(config(tmp_path, agent, task=task, isolation="none")).state

    assert (state.remaining, state.finished is None) == (0, False)


def test_tuner_searches() -> None:
    """What the tuner believes in comes near to what scores best."""
    strategy, best = tuner.Cma(3, 8, seed=0), np.array([1.0, -2.0, 0.5])
    for _ in range(30):
        asked = [strategy.ask(1.0) for _ in range(8)]
        strategy.tell(asked, [-float(((candidate - best) ** 2).sum()) for candidate in asked])

    assert ((strategy.estimate - best) ** 2).sum() < 0.1


@pytest.mark.nightly
def test_tuner_improves(tmp_path: Path) -> None:
    """With 64 episodes of cartpole, on public cases, the tuner is far better than random play, whose mean is 23."""
    state = played(config(tmp_path, "tuner", 64, split=SplitSource.PUBLIC)).state

    assert state.finished is not None
    assert state.finished.score is not None
    assert state.finished.score > 100


@pytest.mark.nightly
def test_random_search_keeps_the_tuners_portions(tmp_path: Path) -> None:
    """Random search spends its budget just as the tuner does, and learns: random play has a mean of 23."""
    searched, tuned = (
        played(config(tmp_path / agent, agent, 64, split=SplitSource.PUBLIC)).state
        for agent in ("random_search", "tuner")
    )
    portions = [[one.charged.env_instances for one in state.submissions] for state in (searched, tuned)]

    assert portions[0] == portions[1]
    assert searched.finished is not None
    assert searched.finished.score is not None
    assert searched.finished.score > 50


def test_random_search_believes_in_the_best() -> None:
    """What random search believes in is the best it was ever told of, the earliest of equals."""
    draws = random_search.Draws(2, 4, seed=0)
    first, second, third = (draws.ask(1.0) for _ in range(3))
    draws.tell([first, second], [1.0, 3.0])
    draws.tell([third], [3.0])

    assert draws.estimate is second


def test_command_finds_the_judge(new_run: RunMaker) -> None:
    """A program finds the judge by its environment and prints into the transcript."""
    run = new_run()
    script = "import os, urllib.request as r; print(r.urlopen(os.environ['EVOPOLICYGYM_TASK_URL']).status)"
    ended = turn(run, command(sys.executable, "-c", script))

    assert ended.end is AgentEnd.FINISHED
    assert desk(run).transcript.read_text(encoding="utf-8") == "200\n"


def test_command_works_in_the_workspace(new_run: RunMaker) -> None:
    """A program starts in the workspace and knows nothing of our own environment."""
    run = new_run()
    turn(run, command(sys.executable, "-c", "import os, json; print(json.dumps([os.getcwd(), dict(os.environ)]))"))
    place, environment = json.loads(desk(run).transcript.read_text(encoding="utf-8"))

    assert place == str(run.paths.workspace)
    assert "XDG_STATE_HOME" not in environment


def test_command_that_fails(new_run: RunMaker) -> None:
    """A program that exits with an error has crashed, and its last words are told."""
    ended = turn(new_run(), command("sh", "-c", "echo no model; exit 3"))

    assert ended.end is AgentEnd.CRASHED
    assert "exit code 3: no model" in ended.message


def test_command_that_is_not_there(new_run: RunMaker) -> None:
    """A program that can't be started is an agent's error, by its name."""
    with pytest.raises(AgentError, match="no-such-program"):
        turn(new_run(), command("no-such-program"))


def test_command_needs_a_program() -> None:
    """A command agent without a command is refused, with how to write one."""
    with pytest.raises(UsageError, match="--"):
        command()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (AgentConfig("tuner", model="gpt"), "tuner.* model"),
        (AgentConfig("random", options={"model_url": "http://localhost"}), "random.*'model_url'"),
        (AgentConfig("command", options={"model_key": "KEY"}, command=("true",)), "model_url"),
        (AgentConfig("command", options={"model_url": "localhost"}, command=("true",)), "base_url"),
        (AgentConfig("command", options={"model_url": "http://a", "model_wire": "b"}, command=("true",)), "chat"),
        (AgentConfig("command", options={"model_url": "http://a", "model_key": "UNSET"}, command=("true",)), "UNSET"),
        (AgentConfig("command", options={"memory_mb": 0}, command=("true",)), "memory_mb"),
    ],
)
def test_choices_that_can_t_be_made(config: AgentConfig, words: str) -> None:
    """What an agent can't do with what it is given is refused before a run begins, and said."""
    with pytest.raises(UsageError, match=words):
        make(config)


def test_stopped_command_leaves_nothing(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is stopped takes with it what it has started, even in sessions of their own."""
    monkeypatch.setattr(program, "GRACE_S", 0.2)  # it ignores what asks it to end
    run, stop = new_run(), Event()
    script = "trap '' TERM; setsid sh -c 'exec > lifeline; echo started; exec sleep 600' & wait"
    with Lifeline(run.paths.workspace / "lifeline") as lifeline:
        Thread(target=lambda: (lifeline.wait_for_line(), stop.set()), daemon=True).start()
        ended = command("sh", "-c", script).play(desk(run), run.door, stop)

        assert ended.end is AgentEnd.STOPPED
        lifeline.wait_for_end()


def test_transcript_is_cut(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that prints without end fills no disk."""
    monkeypatch.setattr(program, "OUTPUT_BYTES", 1000)
    run = new_run()
    turn(run, command("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"))
    transcript = desk(run).transcript.read_text(encoding="utf-8")

    assert transcript == "x" * 1000 + program.CUT.decode()
