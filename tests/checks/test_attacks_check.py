"""``evopolicygym check sandbox``: what it prints of attacks that are held, that are not, and that nobody promised."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.checks import inspection, sandbox
from evopolicygym.checks.sandbox import OK, attack, attacks, run_attacks
from evopolicygym.checks.sandbox import _word as shown
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import Limits
from evopolicygym.sandbox.backends import bubblewrap, none
from evopolicygym.sandbox.base import SandboxFeature
from evopolicygym.specs import catalog
from lifeline import PATIENCE_S
from places import SUPPORT
from shell import Shell

PROGRAM = """
import sys
from evopolicygym.cli.main import main
from evopolicygym.checks import inspection, sandbox
from evopolicygym.checks.sandbox import attack
from evopolicygym.core.task import Limits
names = sys.argv.pop(1).split(",")
if names != [""]:
    chosen = [attack(name) for name in names]
    sandbox.attacks = lambda: chosen
    sandbox.LIMITS = Limits(load_s=60.0, reset_s=60.0, act_s=60.0, episode_s=600.0)
    inspection.GONE_S = 60.0
main()
"""
"""The program with some of the attacks, none of which runs out of time, however busy the machine; or with all."""


class Leaky(none.Backend):
    """A backend that promises what bubblewrap does and holds nothing."""

    guarantees = bubblewrap.Backend.guarantees
    required_features: frozenset[SandboxFeature] = frozenset()


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing run out of time in this process, however busy the machine."""
    monkeypatch.setattr(sandbox, "LIMITS", Limits(load_s=60.0, reset_s=60.0, act_s=60.0, episode_s=600.0))
    monkeypatch.setattr(inspection, "GONE_S", PATIENCE_S)


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


@needs_bubblewrap
def test_a_sandbox_that_holds() -> None:
    """A level that keeps its promises leaves with 0, in plain text, with a line for each attack."""
    done = check("P06,P36,P56", "bubblewrap")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(" held")] == [
        ["held", "P06"],
        ["held", "P36"],
        ["held", "P56"],
    ]
    assert "3 of 3" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_sandbox_that_does_not_hold() -> None:
    """A backend from outside that promises what it doesn't keep exits with 1 and says what was reached."""
    done = check("P54,P56", f"{__name__}:Leaky", "--json")  # an attack that only looks
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}

    assert done.returncode == 1
    assert not found["P54"]["ok"]
    assert found["P54"]["promised"]
    assert "LEAK: read /proc/loadavg" in found["P54"]["detail"]


def test_what_is_not_promised() -> None:
    """What a level doesn't promise is shown as that, and breaks nothing; it is not tried where no wall stands."""
    (walled,) = run_attacks("process", catalog.load("cartpole"), [attack("P06")])
    (open_,) = run_attacks("none", catalog.load("cartpole"), [attack("P06")])

    assert (walled.promised, walled.broken, walled.outcome is None) == (False, False, False)
    assert (open_.promised, open_.broken, open_.outcome is None) == (False, False, True)
    assert (shown(walled), shown(open_)) == ("not promised", "not tried")


def test_a_sandbox_that_is_none(shell: Shell) -> None:
    """A name that no level has is refused with those that there are."""
    left = shell("check", "sandbox", "vault")

    assert left.code == 2
    assert "auto, bubblewrap, none, process" in left.err


@pytest.mark.nightly
@pytest.mark.parametrize("level", [pytest.param("bubblewrap", marks=needs_bubblewrap), "process"])
def test_all_that_is_promised_holds(level: str) -> None:
    """Every promise of a level holds here."""
    done = check("", level)

    assert done.returncode == 0, done.stdout


def test_a_verdict_says_all_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reached, what was left and what came after are told beside how it ended."""
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{SUPPORT}", prepend=os.pathsep)
    (verdict,) = run_attacks(f"{__name__}:Leaky", catalog.load("cartpole"), [attack("P06")])

    assert not verdict.is_safe
    assert verdict.broken
    assert any(fault.startswith("LEAK: variable PYTHONPATH holds /") for fault in verdict.faults)


def test_attacks_are_told_in_full() -> None:
    """Every attack has an id of its own, words, and outcomes that there are."""
    ids = [attack.id for attack in attacks()]
    assert len(set(ids)) == len(ids)
    for found in attacks():
        assert found.name, found.id
        assert found.submission in set(SubmissionStatus), found.id
        assert found.endings <= {OK, *FailureReason}, found.id
        assert found.guarantees <= bubblewrap.Backend.guarantees, found.id
