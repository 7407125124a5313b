"""A judge that was written from the protocol's page alone serves the workspace's client and the paper's."""

import json
import os
import subprocess
import sys
from pathlib import Path

from paper_client import POLICY
from places import SUPPORT
from second_judge import second_judge
from workspace_client import lay_client, run_client


def workspace(place: Path) -> Path:
    """Return a workspace with the client and a policy that acts by the third and fourth observation."""
    for name in ("system", "feedback", "notes"):
        (place / name).mkdir(parents=True, exist_ok=True)
    lay_client(place)
    (place / "system" / "policy.py").write_text(POLICY.format(gain=-1.0), encoding="utf-8")
    return place


def test_the_workspaces_client_plays_by_it(tmp_path: Path) -> None:
    """Each verb finds in answers and feedback what it reads, and a closed run is said as closed."""
    place = workspace(tmp_path / "work")
    with second_judge(place, 8) as variables:

        def judge(*words: str) -> "subprocess.CompletedProcess[str]":
            return run_client(place, variables, *words)

        done = [judge(*words) for words in (("task",), ("info",), ("check",), ("submit", "0-2"))]
        (place / "system" / "policy.py").write_text(POLICY.format(gain=1.0), encoding="utf-8")
        done += [judge(*words) for words in (("submit", "0-2"), ("list",), ("show", "1"), ("diff", "0"))]
        done += [judge(*words) for words in (("trace", "3"), ("export", "3"), ("restore", "0"))]
        compared, much = judge("compare", "0", "1"), judge("submit", "0-5")
        finished, late = judge("finish"), judge("submit", "0")
        restored = (place / "system" / "policy.py").read_text(encoding="utf-8")

    assert [item.returncode for item in done] == [0] * len(done), [item.stderr for item in done]
    assert "better on 3, worse on 0" in compared.stdout
    assert (much.returncode, much.stderr.partition(":")[0]) == (1, "budget_invalid")
    assert (finished.returncode, late.returncode, late.stderr.partition(":")[0]) == (0, 1, "closed")
    assert restored == POLICY.format(gain=-1.0)


def test_the_papers_client_plays_by_it(tmp_path: Path) -> None:
    """It spends the budget, and finds the feedback that it is told."""
    place = workspace(tmp_path / "work")
    with second_judge(place, 12) as variables:
        done = subprocess.run(
            [sys.executable, str(SUPPORT / "paper_client.py")],
            cwd=place, env={**os.environ, **variables}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    rounds = json.loads(done.stdout)["rounds"]

    assert [(played["answer"], played["same"], played["adds_up"]) for played in rounds] == [("ok", True, True)] * 3
