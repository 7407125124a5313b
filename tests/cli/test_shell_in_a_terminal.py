"""A person at a shell in a run's workplace: `run --agent shell`, `enter` and `--interactive`, in a real terminal."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from enclosed import needs_bubblewrap
from shell import Shell

BEGIN = ("cartpole", "--budget", "6", "--validation", "1", "--held-out", "2", "--split", "public", "--workers", "1")
PATIENCE_S = 120
PROMPT = "here> "
pytestmark = needs_bubblewrap


def environment(place: Path) -> dict[str, str]:
    """Return the variables of a user of ours who has a terminal."""
    return {**os.environ, "XDG_STATE_HOME": str(place / "state"), "TERM": "xterm", "NO_COLOR": "1"}


@contextmanager
def terminal(place: Path, *words: str, after: tuple[str, ...] = ()) -> Iterator["pexpect.spawn[str]"]:
    """Yield a command of ours that is started in a terminal, and end it."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "evopolicygym", *words, "--runs", str(place / "runs"), *after],
        env=environment(place),
        encoding="utf-8",
        codec_errors="replace",  # a terminal echoes ^C even between two bytes of a character
        timeout=PATIENCE_S,
        dimensions=(40, 200),
    )
    try:
        yield child
    finally:
        child.close(force=True)


def say(child: "pexpect.spawn[str]", line: str) -> str:
    """Type a line at the shell's prompt and return what is printed until the next one."""
    child.sendline(line)
    child.expect(PROMPT)
    return str(child.before)


def at_prompt(child: "pexpect.spawn[str]") -> None:
    """Wait for the shell, and give it a prompt that nothing else prints."""
    child.expect(r"[$#] ")
    child.sendline("PS1='here''> '")
    child.expect(PROMPT)


def document(place: Path) -> dict[str, dict[str, object]]:
    """Return the document of the one run."""
    (file,) = place.rglob("run.json")
    found: dict[str, dict[str, object]] = json.loads(file.read_bytes())
    return found


def test_a_person_plays_a_whole_run_and_outlives_a_crash(tmp_path: Path) -> None:
    """The shell is where a program would be; killed with its run, it is entered again, with the exact budget."""
    with terminal(tmp_path, "run", *BEGIN, "--agent", "shell") as first:
        at_prompt(first)
        where = say(first, "pwd; ls /home; test -t 0 && echo a terminal; stty size")
        say(first, "./judge submit 0-1")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    with terminal(tmp_path, "enter", "latest") as second:
        at_prompt(second)
        left = say(second, "./judge submit 0-1")
        second.sendline("./judge finish; exit")
        second.expect(pexpect.EOF)
        second.wait()
    found = document(tmp_path)

    assert "/workspace" in where
    assert "a terminal" in where
    assert "40 200" in where
    assert "2 episodes left" in left
    assert second.exitstatus == 0
    assert found["budget"] == {"episodes": 6, "spent": 4, "submissions": 2}
    assert found["outcome"]["closed"] == "finish_asked"
    assert found["agent"]["name"] == "shell"


def test_a_shell_that_is_left_stops_the_run(tmp_path: Path) -> None:
    """Nothing is lost, whatever the shell's exit code was: the message says how to come back."""
    with terminal(tmp_path, "run", *BEGIN, "--agent", "shell") as child:
        at_prompt(child)
        say(child, "./judge submit 0-1")
        child.sendline("exit 3")
        child.expect(pexpect.EOF)
        printed = str(child.before)
        child.wait()

    assert "evopolicygym enter" in printed
    assert child.exitstatus == 5
    assert document(tmp_path)["stage"] == "open"


def test_a_served_run_is_entered_beside_who_serves_it(tmp_path: Path) -> None:
    """The shell is enclosed, and reaches the judge of the other process; leaving it leaves the run as it is.

    An address in the workspace, which an agent could have written, is not asked.
    """
    with terminal(tmp_path, "serve", *BEGIN, "--workspace", str(tmp_path / "work")) as serving:
        serving.expect("judge.env")
        forged = "export EVOPOLICYGYM_INFO_URL=http://127.0.0.1:1/x/info\n"
        (tmp_path / "work" / "judge.env").write_text(forged, encoding="utf-8")
        with terminal(tmp_path, "enter", "latest") as child:
            at_prompt(child)
            said = say(child, f"./judge submit 0-3; ls {tmp_path} || echo hidden")
            child.sendline("exit")
            child.expect(pexpect.EOF)
            child.wait()
        again = document(tmp_path)["stage"]
        serving.sendintr()
        serving.expect("evopolicygym resume")
        serving.wait()

    assert "2 episodes left" in said
    assert "hidden" in said
    assert child.exitstatus == 0
    assert again == "open"
    assert (tmp_path / "work" / "feedback" / "submit_000" / "summary.json").is_file()


def test_a_program_has_the_terminal(tmp_path: Path) -> None:
    """`--interactive`: what the user types is the program's input, and the run is scored when the program ends."""
    program = tmp_path / "asks.sh"
    program.write_text("read -p 'which cases? ' cases\n./judge submit $cases\n", encoding="utf-8")
    child = pexpect.spawn(
        sys.executable,
        [
            "-m",
            "evopolicygym",
            "run",
            *BEGIN,
            "--runs",
            f"{tmp_path}/runs",
            "--interactive",
            "--",
            "bash",
            str(program),
        ],
        env=environment(tmp_path),
        encoding="utf-8",
        codec_errors="replace",  # a terminal echoes ^C even between two bytes of a character
        timeout=PATIENCE_S,
    )
    child.expect("which cases. ")
    child.sendline("0-5")
    child.expect(pexpect.EOF)
    child.wait()

    assert child.exitstatus == 0
    assert document(tmp_path)["budget"] == {"episodes": 6, "spent": 6, "submissions": 1}


@pytest.mark.parametrize("words", [("run", *BEGIN, "--agent", "shell"), ("enter", "latest")])
def test_a_pipe_is_no_terminal(tmp_path: Path, shell: Shell, words: tuple[str, ...]) -> None:
    """Where nobody is at a terminal, nothing is made."""
    left = shell(*words, "--runs", tmp_path / "runs")

    assert left.code == 2
    assert "terminal" in left.err
    assert not (tmp_path / "runs").exists()
