"""A skill that the agent is handed: read, recorded, compared, and never changed by the agent."""

import json
import sys
from pathlib import Path

import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.server import Reply, ScriptedModel
from model_proxies import REAL_KEY, VARIABLE
from players import BAD, GOOD
from shell import Shell

SMALL = ("--budget", 2, "--validation", 1, "--held-out", 1, "--workers", 1, "--json")
READ_AND_WRITE = """\
import pathlib, subprocess
assert "skill/SKILL.md" in pathlib.Path("AGENTS.md").read_text()
pathlib.Path("notes/read").write_text(pathlib.Path("skill/SKILL.md").read_text())
try:
    pathlib.Path("skill/SKILL.md").chmod(0o644)
    pathlib.Path("skill/SKILL.md").write_text("changed")
except OSError:
    pathlib.Path("notes/refused").touch()
subprocess.run(["./judge", "submit", "0-1"], check=True)
"""


def skill(directory: Path, text: str = "Push the cart under the pole.") -> Path:
    """Write a skill."""
    (directory / "more").mkdir(parents=True)
    (directory / "SKILL.md").write_text(text)
    (directory / "more" / "notes.md").write_text("Nothing more.")
    return directory


def play(shell: Shell, runs: Path, *options: object) -> Path:
    """Play a small run and return its directory."""
    told = json.loads(shell.printed("run", "cartpole", "--runs", runs, *SMALL, *options))
    (root,) = runs.rglob(told["run_id"])
    return root


def skill_of(root: Path) -> str | None:
    """Return what a run's row says of its skill."""
    (run,) = evopolicygym.load_runs(root).runs
    return run.skill


def finding(shell: Shell, root: Path) -> tuple[int, str]:
    """Return the exit code of ``verify`` and what it says of the skill."""
    left = shell("verify", root, "--json")
    (found,) = [finding for finding in json.loads(left.out)["findings"] if finding["what"] == "skill"]
    return left.code, found["detail"]


@needs_bubblewrap
def test_an_agent_reads_it_and_can_t_change_it(shell: Shell, tmp_path: Path) -> None:
    """A program reads it in its workspace, where it is read-only; the record names it by its digest."""
    program = tmp_path / "agent.py"
    program.write_text(READ_AND_WRITE)
    given = skill(tmp_path / "cart-skill")
    root = play(shell, tmp_path / "runs", "--skill", given, "--", sys.executable, program)
    named = skill_of(root)
    assert named

    assert (root / "workspace/notes/read").read_text() == (given / "SKILL.md").read_text()
    assert (root / "workspace/notes/refused").exists()
    assert named.startswith("cart-skill ")
    assert finding(shell, root) == (0, named)


def test_another_skill_is_another_entry(shell: Shell, tmp_path: Path) -> None:
    """Runs are grouped by its content, whatever its directory is called elsewhere; the same content is the same."""
    runs = tmp_path / "runs"
    places = [skill(tmp_path / str(number) / "one", text) for number, text in enumerate(("a", "b", "a"))]
    roots = [play(shell, runs, "--agent", "random", "--skill", place) for place in places]
    roots.append(play(shell, runs, "--agent", "random"))
    named = [skill_of(root) for root in roots]

    assert named[0] == named[2] != named[1]
    assert named[3] is None
    assert len(shell.json("leaderboard", runs)["tables"]) == 3

    (roots[0] / "workspace/skill/SKILL.md").chmod(0o644)
    (roots[0] / "workspace/skill/SKILL.md").write_text("c")
    assert finding(shell, roots[0])[0] == 1


def test_a_question_shows_it(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that asks for one program a request is shown the text after the task."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with ScriptedModel() as model:
        model.replies = [Reply(f"Idea: x\n```python\n{text}```") for text in (BAD, GOOD)]
        options = ("--model", "m", "--model-url", model.url, "--model-key", VARIABLE, "--option", "prompt=search")
        play(shell, tmp_path / "runs", "--agent", "rewrite", *options, "--skill", skill(tmp_path / "s", "UNIQUE WORDS"))

        assert all("UNIQUE WORDS" in json.dumps(asked.body) for asked in model.asked if asked.method == "POST")


@pytest.mark.parametrize("what", ["nothing", "a file", "no SKILL.md", "a link", "a name"])
def test_what_is_no_skill(shell: Shell, tmp_path: Path, what: str) -> None:
    """Anything but a directory of files with SKILL.md is refused before anything is written."""
    place = tmp_path / ("a skill" if what == "a name" else "skill")
    if what == "a file":
        place.write_text("")
    elif what != "nothing":
        skill(place)
    if what == "no SKILL.md":
        (place / "SKILL.md").unlink()
    if what == "a link":
        (place / "link").symlink_to("/etc/passwd")
    left = shell("run", "cartpole", "--agent", "random", "--runs", tmp_path / "runs", "--skill", place, *SMALL)

    assert (left.code, "Invalid skill" in left.err, (tmp_path / "runs").exists()) == (2, True, False)


def test_a_suite_crosses_it(shell: Shell, tmp_path: Path) -> None:
    """A suite plays each agent with and without it, on the same cases."""
    file, given = tmp_path / "worth.toml", skill(tmp_path / "one")
    file.write_text(
        f'environments = ["cartpole"]\nbudget = 2\nvalidation = 1\nheld_out = 2\nagents = [{{name = "random"}}]\n'
        f'[cross]\nskill = ["", "{given}"]\n'
    )
    shell.printed("suite", file, "--runs", tmp_path / "runs", "--workers", 1)

    assert len(shell.json("leaderboard", tmp_path / "runs")["tables"]) == 2
    assert shell("suite", file, "--runs", tmp_path / "runs", "--workers", 1).code == 0
