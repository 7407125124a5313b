"""--quiet and --verbose: the result alone, or with a log of what goes on."""

from pathlib import Path

import pytest

from shell import Left, Shell

SMALL = ("--agent", "random", "--budget", 2, "--validation", 1, "--held-out", 1, "--workers", 1)


def played(shell: Shell, place: Path, *words: object) -> Left:
    left = shell("run", "cartpole", *SMALL, "--runs", place / "runs", *words)
    assert left.code == 0, left.err
    return left


@pytest.mark.parametrize("word", ["--quiet", pytest.param("-q", marks=pytest.mark.nightly)])
def test_quiet_prints_the_result(shell: Shell, tmp_path: Path, word: str) -> None:
    """With --quiet a run prints the box with its score and nothing else, no warning either, and so does resume."""
    left = played(shell, tmp_path, "--workers", 4096, word)
    again = shell("resume", "latest", "--runs", tmp_path / "runs", "--workers", 4096, word)

    assert (left.err, again.err) == ("", "")
    assert left.out == again.out
    assert left.out.startswith("╭")
    assert left.out.endswith("╯\n")
    assert "held-out score" in left.out


def test_verbose_logs_what_goes_on(shell: Shell, tmp_path: Path) -> None:
    """With --verbose stderr tells what the sandbox can hold, where files lie, how many play, and every episode.

    With --json too stdout holds the outcome alone.
    """
    left = played(shell, tmp_path, "--verbose", "--json")
    log = " ".join(left.err.split())
    (journal,) = (tmp_path / "runs").rglob("journal.jsonl")

    assert left.out.startswith("{")
    assert "".join(left.err.split()).count(journal.parent.name) > 1  # a long path is broken into lines
    assert "sandbox, seccomp:" in log
    assert "workers 1, executor local" in log
    assert "train episode 1 of submission 0: return" in log
    assert "held_out episode 0 of checkpoint " in log
    assert "state directory" in log
    assert "sandbox, seccomp:" not in left.out


def test_errors_are_said_as_ever(shell: Shell) -> None:
    """--quiet keeps no error back, and it can't be asked for together with --verbose."""
    unknown, both = shell("run", "cartpol", "-q"), shell("run", "cartpole", "-q", "-v")

    assert (unknown.code, both.code) == (2, 2)
    assert "cartpol" in unknown.err
    assert "--quiet" in both.err
    assert "--verbose" in both.err


def test_a_suite_is_quiet(shell: Shell, tmp_path: Path) -> None:
    """With --quiet a suite prints its table alone."""
    words = ("--environment", "cartpole", *SMALL, "--runs", tmp_path / "runs")
    left = shell("suite", "smoke", *words, "--quiet")

    assert (left.code, left.err) == (0, "")
    assert "cartpole" in left.out
    assert "next" not in left.out
