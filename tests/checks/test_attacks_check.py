"""``evopolicygym check sandbox``: what it prints of attacks that are held, that are not, and that nobody promised."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.checks.attack_suite.attack import OK, Attack, attack, attacks
from evopolicygym.checks.attack_suite.suite import run_attacks
from evopolicygym.core.episode import FailureReason
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.sandbox.backends import bubblewrap, none
from evopolicygym.sandbox.confinement.walls import Wall
from evopolicygym.specs import catalog
from places import SUPPORT

PROGRAM = """
import sys
from evopolicygym.cli.main import main
from evopolicygym.checks.attack_suite import suite
from evopolicygym.checks.attack_suite.attack import attack
names = sys.argv.pop(1).split(",")
if names != [""]:
    suite.attacks = lambda: [attack(name) for name in names]
main()
"""
HARMLESS = "P04,P06,P54"
"""Attacks that only look."""


class Leaky(none.Backend):
    """A backend that promises what bubblewrap does and holds nothing."""

    guarantees = bubblewrap.Backend.guarantees
    walls: frozenset[Wall] = frozenset()


def check(which: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the program's check of a sandbox with some of the attacks (all, where none is named)."""
    found = [str(Path(__file__).parent), str(SUPPORT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, which, "check", "sandbox", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found)), "COLUMNS": "120"},
    )


def need(level: str) -> None:
    """Skip the test where a level can't work here."""
    if "bubblewrap" in level and check("P56", "bubblewrap").returncode == 4:
        pytest.skip("bubblewrap can't make a sandbox here")


def test_a_sandbox_that_holds() -> None:
    """A level that keeps its promises leaves with 0, in plain text, with a line for each attack."""
    need("bubblewrap")
    done = check("P06,P36,P56", "bubblewrap")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(" held")] == [
        ["held", "P06"],
        ["held", "P36"],
        ["held", "P56"],
    ]
    assert "3 of 3 passed" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_sandbox_that_does_not_hold() -> None:
    """A backend from outside that promises what it doesn't keep exits with 1 and says what was reached."""
    done = check(HARMLESS, f"{__name__}:Leaky", "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}

    assert done.returncode == 1
    assert not found["P54"]["ok"]
    assert found["P54"]["promised"]
    assert "LEAK: read /proc/loadavg" in found["P54"]["detail"]


def test_what_is_not_promised() -> None:
    """What a level doesn't promise is shown as that, and breaks nothing; it is not tried where no wall stands."""
    walled, open_ = check("P06", "process"), check(HARMLESS, "none")

    assert (walled.returncode, open_.returncode) == (0, 0)
    assert next(line.split()[:3] for line in walled.stdout.splitlines() if line) == ["not", "promised", "P06"]
    assert open_.stdout.count("not tried") == 3
    assert "0 of 0 passed; 3 not promised" in open_.stdout


def test_a_sandbox_that_is_none() -> None:
    """A name that no level has is refused with those that there are."""
    done = check("P56", "vault")

    assert done.returncode == 2
    assert "Known: auto, bubblewrap, none, process" in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_all_that_is_promised_holds(level: str) -> None:
    """Every promise of a level holds here."""
    need(level)
    done = check("", level)

    assert done.returncode == 0, done.stdout


def test_a_verdict_says_all_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reached, what was left and what came after are told beside how it ended."""
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{SUPPORT}", prepend=os.pathsep)
    (verdict,) = run_attacks(f"{__name__}:Leaky", catalog.load("cartpole"), [attack("P06")])

    assert not verdict.held
    assert verdict.broken
    assert any(fault.startswith("LEAK: variable PYTHONPATH holds /") for fault in verdict.faults)


@pytest.mark.parametrize("one", attacks(), ids=lambda one: one.id)
def test_attacks_are_told_in_full(one: Attack) -> None:
    """Every attack has an id of its own, words, and outcomes that there are."""
    assert [other.id for other in attacks()].count(one.id) == 1
    assert one.name
    assert one.submission in set(SubmissionStatus)
    assert one.endings <= {OK, *FailureReason}
    assert one.guarantees <= bubblewrap.Backend.guarantees
