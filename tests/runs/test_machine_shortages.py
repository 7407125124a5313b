"""What a machine runs out of is no failure of a policy or an agent: the run stops, resumable, and names the limit."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from asking import submit
from enclosed import needs_bubblewrap
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import private_copy
from fakes import RunMaker
from ordinary_user import ordinary_user
from playground import one_worker, policy
from simulators import spec

FEW = 60
"""Descriptors that are too few for overlays of the standard library, and enough for everything else."""
PROGRAM = ("-m", "evopolicygym")
NO_COPY = """
from evopolicygym.cli import main
from evopolicygym.sandbox import private_copy
private_copy.new_directory = lambda: None
main.main()
"""
WITHOUT_A_COPY = ("-c", NO_COPY)
"""The program where no copy in memory can be made, so that policies see overlays."""
needs_a_copy = pytest.mark.skipif(
    bool(private_copy._memory_directory()[1]), reason="no copy in memory can be made here"
)


def run_with(
    limit: int, *words: str, runs: Path, program: Sequence[str] = PROGRAM
) -> "subprocess.CompletedProcess[str]":
    """Play a short run as a user types it, where a process may have so few descriptors."""
    line = [sys.executable, *program, "run", "cartpole", "--agent", "random", "--budget", "2", *words]
    return subprocess.run(
        [*line, "--validation", "1", "--held-out", "1", "--workers", "1", "--runs", str(runs), "--json"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )


@pytest.mark.parametrize("isolation", ["process", pytest.param("bubblewrap", marks=[needs_bubblewrap, needs_a_copy])])
def test_few_descriptors_are_enough_for_policies(isolation: str, tmp_path: Path) -> None:
    """Policies play where a process may have 60 descriptors: none needs one of a certain number."""
    ended = run_with(FEW, "--isolation", isolation, runs=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert [made["status"] for made in json.loads(ended.stdout)["submissions"]] == ["ok"]


@pytest.mark.parametrize(
    ("limit", "isolation", "program"),
    [
        pytest.param(FEW, "bubblewrap", WITHOUT_A_COPY, marks=needs_bubblewrap),
        pytest.param(20, "bubblewrap", PROGRAM, marks=needs_bubblewrap),
        (20, "process", PROGRAM),
    ],
)
def test_too_few_descriptors(limit: int, isolation: str, program: Sequence[str], tmp_path: Path) -> None:
    """Where a sandbox or the judge can't have its descriptors, nothing is played, and the message names the limit."""
    ended = run_with(limit, "--isolation", isolation, runs=tmp_path, program=program)

    assert ended.returncode == 4, ended.stderr
    assert f"{limit} open (ulimit -n)" in ended.stderr
    assert list(tmp_path.rglob("journal.jsonl")) == []


def test_before_a_policys_first_line(tmp_path: Path) -> None:
    """What fails before a policy's first line is the sandbox's fault, whatever it is."""
    with (
        one_worker("process", spec("Plain"), tmp_path, change="unconfinable") as ground,
        pytest.raises(SandboxError, match="RLIMIT_NONE"),
    ):
        ground.load(policy())


def test_no_more_processes() -> None:
    """Where no process can be started, the message names the limit and no missing library."""
    words = [
        *ordinary_user(),
        "bash",
        "-c",
        'ulimit -u 1; exec "$@"',
        "bash",
        sys.executable,
        "-B",
        "-m",
        "evopolicygym",
    ]
    ended = subprocess.run(
        [*words, "check", "sandbox", "process"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )

    assert ended.returncode == 4, ended.stderr
    assert "ulimit -u 1," in ended.stderr
    assert "libseccomp" not in ended.stderr


def test_the_judge_can_start_no_thread(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that the judge has no thread for stops the run; it is no failure of the agent that made it."""
    run = new_run()

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(run.session, "accept", no_thread)
    answer = submit(run)

    assert answer.status_code == 503
    with pytest.raises(SandboxError, match="ulimit -u"):
        run.session.raise_fault()
