"""An agent that fails is a warning or an error of the call that played the run, and leaves its traceback."""

import json
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.errors import AgentError, UsageError

SMALL = {"budget": 1, "validation": 1, "held_out": 1, "split": "public", "workers": 1}


def broken(session: evopolicygym.Session) -> None:
    """Fail after a submission."""
    session.submit(episodes=1)
    raise ZeroDivisionError("an idea")


def at_once(_session: evopolicygym.Session) -> None:
    """Fail before any."""
    raise ZeroDivisionError("no idea")


def test_a_function_that_raises_is_a_warning_with_a_traceback(tmp_path: Path) -> None:
    """The run is scored all the same; how the agent failed is said, and where it did is in its log."""
    with pytest.warns(UserWarning, match="ZeroDivisionError: an idea"):
        run = evopolicygym.run("cartpole", broken, runs=tmp_path / "runs", **{**SMALL, "budget": 2})
    log = (run.path / "logs" / "agent.log").read_text()

    assert run.score is not None
    assert run.agent_error == "crashed: ZeroDivisionError: an idea"
    assert ("in broken" in log, log.rstrip().endswith("ZeroDivisionError: an idea")) == (True, True)


def test_a_function_that_raises_is_an_error_where_that_is_wanted(tmp_path: Path) -> None:
    """It is raised from the function's own exception, once the run is finished; whoever resumes it can ignore it."""
    with pytest.raises(AgentError, match="no idea") as caught:
        evopolicygym.run("cartpole", at_once, runs=tmp_path / "runs", on_agent_error="raise", **SMALL)
    (root,) = {file.parent for file in (tmp_path / "runs").rglob("run.json")}
    run = evopolicygym.resume(root, agent=at_once, on_agent_error="ignore")

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (run.is_finished, run.score) == (True, None)
    assert json.loads((root / "run.json").read_text())["outcome"]["status"] == "no_ok_submit"


def test_an_unknown_way_is_refused(tmp_path: Path) -> None:
    """Nothing is made for a word that stands for nothing."""
    with pytest.raises(UsageError, match="on_agent_error"):
        evopolicygym.run("cartpole", broken, runs=tmp_path / "runs", on_agent_error="shout", **SMALL)  # type: ignore[arg-type] # as a person would
    assert not (tmp_path / "runs").exists()
