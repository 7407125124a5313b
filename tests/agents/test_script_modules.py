"""An agent's program sees the modules beside its script that it imports, and is told how to get at others."""

from dataclasses import replace
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.runs.preflight import program_sha256
from evopolicygym.sandbox.program.view import modules_beside, words
from whole_runs import config, events, played, state_kept_in


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a script that imports a module, which imports a package; another file lies beside them."""
    place = tmp_path / "program"
    (place / "parts").mkdir(parents=True)
    for name, text in {
        "agent.py": "import json\nimport helper\n",
        "helper.py": "def f():\n    from parts.one import X\n",
        "parts/__init__.py": "",
        "parts/one.py": "import deep",
        "deep.py": "import agent, helper",
        "secret.py": "",
        "gymnasium.py": "",
    }.items():
        (place / name).write_text(text)
    return place / "agent.py"


def test_what_a_script_imports_from_beside_it(script: Path) -> None:
    """It is found through modules and packages; what nothing imports is not."""
    found = {path.name for path in modules_beside(["python3", str(script)])}

    assert found == {"helper.py", "parts", "deep.py"}
    assert modules_beside(["python3", "agent.py"]) == modules_beside([str(script.with_name("none.py"))]) == ()


def test_it_is_seen_and_no_simulator_is(script: Path, tmp_path: Path) -> None:
    """A module with a simulator's name stays hidden, whatever imports it."""
    script.write_text("import helper, gymnasium")
    shown = list(words(tmp_path, ["python3", str(script)], 1 << 20))

    assert str(script.with_name("helper.py")) in shown
    assert {str(script.with_name(name)) for name in ("gymnasium.py", "secret.py")}.isdisjoint(shown)


def test_the_hash_covers_it(script: Path) -> None:
    """An edited helper makes another program; a file that isn't imported does not."""
    before = program_sha256(["python3", str(script)])
    script.with_name("secret.py").write_text("1")
    same = program_sha256(["python3", str(script)])
    script.with_name("helper.py").write_text("1")

    assert (same == before, program_sha256(["python3", str(script)]) == before) == (True, False)


@needs_bubblewrap
def test_a_program_that_lacks_a_module_is_told_the_way_out(script: Path, tmp_path: Path) -> None:
    """How it ended is its last line, whole, with how to take another Python."""
    script.write_text("import helper\nimport no_such_module\n")
    agent = AgentConfig("command", command=("python3", str(script)))
    with state_kept_in(tmp_path / "state"):
        run = played(replace(config(tmp_path / "runs", budget=2, isolation="bubblewrap"), agent=agent))
    (end,) = [one for one in events(run.paths) if type(one).__name__ == "AgentEnded"]

    assert end.end == AgentEnd.CRASHED
    assert "exit code 1: ModuleNotFoundError: No module named 'no_such_module'." in end.message
    assert f'-- "$(which python3)" {script}' in end.message
