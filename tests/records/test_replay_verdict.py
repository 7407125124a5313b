"""What a replay says of a score: the same, rounding, or something else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evopolicygym.cli.main import app
from evopolicygym.core.check_result import ReplayVerdict
from evopolicygym.core.rollout import Episode, Failure, FailureReason
from evopolicygym.runs.replay import ReplayedCase, compare_replay
from evopolicygym.specs import catalog
from whole_runs import config, played

RECORDED = Episode(-8.0, 50, terminated=False, truncated=True, trajectory_sha256="a")
ELSEWHERE = ("it was recorded with other kernels",)


def replayed(recorded: Episode = RECORDED, reasons: tuple[str, ...] = ELSEWHERE, **again: object) -> ReplayedCase:
    """Return a case that played again with some changes."""
    episode = replace(recorded, trajectory_sha256="b", **again)  # type: ignore[arg-type] # fields of an episode
    return ReplayedCase(0, recorded, episode, "bubblewrap", reasons)


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (ReplayedCase(0, RECORDED, RECORDED, "bubblewrap", ELSEWHERE), ReplayVerdict.SAME),
        (replayed(episode_return=-8.0), ReplayVerdict.ROUNDING),
        (replayed(episode_return=-8.0005), ReplayVerdict.ROUNDING),
        (replayed(episode_return=-8.01), ReplayVerdict.DIFFERENT),
        (replayed(length=49), ReplayVerdict.DIFFERENT),
        (replayed(terminated=True), ReplayVerdict.DIFFERENT),
        (replayed(success=True), ReplayVerdict.DIFFERENT),
        (replayed(failure=Failure(FailureReason.ERROR, "no")), ReplayVerdict.DIFFERENT),
        (replayed(reasons=(), episode_return=-8.0005), ReplayVerdict.DIFFERENT),
    ],
)
def test_rounding_is_told_from_other_differences(one: ReplayedCase, verdict: ReplayVerdict) -> None:
    """Rounding changes no ending, moves a return by at most 1e-4 of it, and has other arithmetic as its reason."""
    assert compare_replay([one])[0] is verdict


def test_how_much_returns_differ_is_said() -> None:
    """How many cases differ, their largest difference and the score's are told, and some cases are named."""
    same = replace(replayed(), again=RECORDED)
    said = compare_replay([replayed(episode_return=-8.0004), replayed(episode_return=-7.9998), same])

    assert all(number in said[1] for number in ("2 of 3", "0.0004", "6.67e-05", "0, 0"))
    assert ELSEWHERE[0] in said[1]


@pytest.mark.parametrize(
    ("less", "code", "verdict"),
    [(1e-9, 6, ReplayVerdict.ROUNDING), pytest.param(0.1, 1, ReplayVerdict.DIFFERENT, marks=pytest.mark.nightly)],
)
def test_the_verb_has_an_exit_code_for_rounding(less: float, code: int, verdict: ReplayVerdict, tmp_path: Path) -> None:
    """A record that was made by other arithmetic differs by rounding or fails, each with its own exit code."""
    asked = config(tmp_path / "runs", "players:make_rounder", budget=1, pinned=False)
    agent = replace(asked.agent, options={"less": less})
    task = replace(asked.task, environment=catalog.load("pendulum"))
    root = played(replace(asked, agent=agent, task=task)).paths.root
    said = CliRunner().invoke(app, ["verify", str(root), "--replay", "--json"])
    found = {one["what"]: one for one in json.loads(said.stdout)["findings"]}

    assert (code, verdict) == (said.exit_code, found["replay"]["verdict"]), said.output
    assert [what for what, one in found.items() if not one["ok"]] == ["replay"]
