"""An agent from outside that is none is refused in a line, before anything is made."""

from pathlib import Path

import pytest

from evopolicygym.agents.base import make
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import AgentError, UsageError
from shell import Shell

MODULE = """
class Agent:
    max_turns = 1

    def play(self, workspace, endpoint, stop): ...


class Unsigned(Agent):
    def play(self): ...


class Unlimited(Agent):
    max_turns = None


def raises(config):
    raise ValueError("bad idea")


def nothing(config): ...


def takes_none(): ...


def number(config):
    return 1


def unsigned(config):
    return Unsigned()


def unlimited(config):
    return Unlimited()
"""


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have modules of somebody else's, with names of this test alone."""
    (tmp_path / "wrong_agents.py").write_text(MODULE)
    (tmp_path / "wrong_syntax.py").write_text("def (")
    (tmp_path / "wrong_import.py").write_text("raise RuntimeError('at import')")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("raises", "ValueError: bad idea"),
        ("nothing", "got None"),
        ("takes_none", "TypeError: takes_none()"),
        ("number", "'int' object without play"),
        ("unsigned", "'Unsigned' object with play()"),
        ("unlimited", "'Unlimited' object whose max_turns is None"),
    ],
)
def test_what_makes_no_agent_is_refused(name: str, problem: str) -> None:
    """The error names what was made or raised in its stead."""
    with pytest.raises(AgentError) as refused:
        make(AgentConfig(f"wrong_agents:{name}"))
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("module", ["wrong_syntax", "wrong_import"])
def test_a_module_that_fails_to_load_is_refused(module: str) -> None:
    """Whatever it raises, the error names its file."""
    with pytest.raises(UsageError, match=rf"{module}\.py"):
        make(AgentConfig(f"{module}:make"))


def test_a_wrong_agent_leaves_no_record(shell: Shell, tmp_path: Path) -> None:
    """The program ends with exit code 5, with nothing made."""
    left = shell("run", "cartpole", "--agent", "wrong_agents:nothing", "--runs", tmp_path / "runs")

    assert (left.code, "wrong_agents:nothing" in left.err) == (5, True)
    assert not (tmp_path / "runs").exists()
