"""A run as an evaluator of programs: what an optimiser of one's own meets, and the example of the docs."""

import json
import re
from pathlib import Path
from threading import Event

import pytest

from enclosed import desk
from evopolicygym.agents.kit.evaluator import BudgetSpent, Evaluator, SearchAgent
from evopolicygym.agents.kit.judge_client import JudgeClient
from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import BudgetRule
from fakes import OpenRun, RunMaker
from places import ROOT
from whole_runs import config, played

DOCS = ROOT / "docs" / "extend" / "optimisers.md"


def evaluator(run: OpenRun) -> Evaluator:
    """Return a run as an evaluator."""
    return Evaluator(desk(run), JudgeClient(run.door.address, Event()))


def test_the_example_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimiser in docs/extend/optimisers.md is short and plays a run as it stands, better than random play: 23."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "hill.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    state = played(config(tmp_path / "runs", "hill:make", 21, split=SplitSource.PUBLIC)).state

    assert len(code.splitlines()) <= 32
    assert state.remaining == 0
    assert state.finished is not None
    assert state.finished.score is not None
    assert state.finished.score > 30


def test_what_came_of_a_candidate(new_run: RunMaker) -> None:
    """A candidate of several files is played as it is: nothing of the one before lies beside it."""
    run = new_run()
    runs = evaluator(run)
    runs.evaluate({"policy.py": "1", "parts/old.py": "pass"}, [0])
    evaluation = runs.evaluate({"policy.py": "3", "parts/new.py": "pass"}, [2, 1])
    files = {path.relative_to(run.paths.system).as_posix() for path in run.paths.system.rglob("*.py")}

    assert (evaluation.status, evaluation.returns, evaluation.mean) == ("ok", (3.0, 3.0), 3.0)
    assert (evaluation.remaining, runs.remaining, runs.evaluations) == (5, 5, 2)
    assert evaluation.feedback is not None
    assert json.loads((evaluation.feedback / "summary.json").read_text(encoding="utf-8"))["env_instances"] == [2, 1]
    assert files == {"policy.py", "parts/new.py"}


def test_what_can_t_be_loaded(new_run: RunMaker) -> None:
    """A candidate that can't be loaded is worse than any, says why, and costs its episodes."""
    evaluation = evaluator(new_run()).evaluate("init_error", [0, 1])

    assert (evaluation.status, evaluation.returns, evaluation.mean) == ("init_error", (), float("-inf"))
    assert "Traceback" in evaluation.load_error
    assert evaluation.remaining == 6


def test_what_the_judge_will_not_take(new_run: RunMaker) -> None:
    """A candidate that is no checkpoint is told as refused and costs nothing; one out of place is never written."""
    runs = evaluator(new_run())
    evaluation = runs.evaluate({"other.py": "1"}, [0])

    assert (evaluation.status, evaluation.feedback, runs.remaining) == ("refused", None, 8)
    for name in ("../policy.py", "/policy.py", ""):
        with pytest.raises(UsageError, match="relative to system/"):
            runs.evaluate({name: "1"}, [0])


def test_the_budget_is_spent(new_run: RunMaker) -> None:
    """Asking for more than is left is said so and charges nothing; the rest goes to the best on new cases."""
    run = new_run()
    runs = evaluator(run)
    for program in ("2", "5", "4"):
        runs.evaluate(program, [0, 1])
    with pytest.raises(BudgetSpent, match="2 are left"):
        runs.evaluate("6", [0, 1, 2])
    runs.spend_rest()
    with pytest.raises(BudgetSpent):
        runs.evaluate("7", [0])

    assert runs.best == {"policy.py": "5"}
    assert [one.charged.env_instances for one in run.session.state.submissions][-1] == (2, 3)
    assert run.session.state.submissions[-1].charged.checkpoint == run.session.state.submissions[1].charged.checkpoint


def test_asked_again(new_run: RunMaker) -> None:
    """The same candidate on the same cases is answered from what was played, by another evaluator too."""
    run = new_run()
    first = evaluator(run).evaluate("2", [0, 1])
    evaluator(run).evaluate("3", [0])
    again = evaluator(run)

    assert again.evaluate("2", [0, 1]).returns == first.returns
    assert again.remaining == 5
    assert len(run.session.state.submissions) == 2


def test_a_search_that_ends_early(new_run: RunMaker) -> None:
    """A search that returns leaves the rest to its best candidate; one that evaluates nothing, to the starter."""
    for search in (lambda runs, _seed: runs.evaluate("2", [0]) and None, lambda _runs, _seed: None):
        run = new_run(f"run-{search.__code__.co_argcount}-{len(search.__code__.co_names)}", budget=BudgetRule(5))
        ended = SearchAgent(search).play(desk(run), run.door, Event())

        assert (ended.end, run.session.state.remaining) == (AgentEnd.FINISHED, 0)
