"""What a shell proposes while a command is typed, as bash itself asks for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from evopolicygym.cli.main import app

BASH = shutil.which("bash") or ""
PROGRAM = Path(sys.executable).with_name("evopolicygym")
SCRIPT = """
eval "$(_EVOPOLICYGYM_COMPLETE=source_bash evopolicygym)"
COMP_WORDS=(evopolicygym "$@"); COMP_CWORD=$#
_evopolicygym_completion evopolicygym
printf '%s\\n' "${COMPREPLY[@]}"
"""
RUN_IDS = ["20261120-060000-00aa", "20261121-060000-ab12"]

needs_bash = pytest.mark.skipif(not (BASH and PROGRAM.exists()), reason="bash or the program is not installed here")


def proposed(*words: str, place: Path | None = None) -> list[str]:
    """Return what bash proposes in place of the last word."""
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [BASH, "-c", SCRIPT, "bash", *words], capture_output=True, text=True, check=True, env=environment, cwd=place
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory below which runs lie in two places."""
    for directory, run_id in zip(("runs/default", "mine"), RUN_IDS, strict=True):
        root = tmp_path / directory / run_id
        root.mkdir(parents=True)
        (root / "journal.jsonl").touch()
    return tmp_path


CASES: list[tuple[list[str], list[str]]] = [
    (["sh"], ["show"]),
    (["run", "acr"], ["acrobot"]),
    (["run", "acrobot", "--agent", "random"], ["random", "random_search"]),
    (["run", "acrobot", "--ag"], ["--agent"]),
    (["suite", "cor"], ["core16"]),
    (["check", "envi"], ["environment"]),
    (["check", "environment", "acr"], ["acrobot"]),
    (["check", "agent", "cod"], ["codex"]),
    (["check", "sandbox", "bub"], ["bubblewrap"]),
    (["show", ""], ["latest", RUN_IDS[0]]),
    (["verify", "2026"], [RUN_IDS[0]]),
    (["show", "--runs", "mine", "2026"], [RUN_IDS[1]]),
    (["leaderboard", "2026"], [RUN_IDS[0]]),
]


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_names_are_proposed(
    words: list[str],
    expected: list[str],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Verbs, options, names of what can be played and ids of runs are completed."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("_EVOPOLICYGYM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(["evopolicygym", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))

    with pytest.raises(SystemExit):
        get_command(app).main([], prog_name="evopolicygym")

    assert expected == capsys.readouterr().out.split()


@needs_bash
def test_bash_asks_for_names(place: Path) -> None:
    """What bash itself asks is answered with the same names."""
    words, expected = CASES[0]

    assert expected == proposed(*words, place=place)


@needs_bash
def test_files_are_left_to_the_shell(place: Path) -> None:
    """Where no name fits, nothing is proposed, so that bash completes paths by itself."""
    assert proposed("show", "runs/", place=place) == []
