"""The client that lies in a workspace: what it asks, what it prints, how it ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from evopolicygym.core.rollout import Failure, FailureReason
from fakes import TOY, OpenRun, RunMaker
from workspace_client import lay_client, run_client

NOBODY = "http://127.0.0.1:9/nobody/info"


@contextmanager
def started(*words: str, info_url: str = "") -> "Iterator[subprocess.Popen[str]]":
    """Start the desk's client as an agent would, in an empty environment."""
    environment = {"EVOPOLICYGYM_INFO_URL": info_url} if info_url else {}
    with (
        TemporaryDirectory() as directory,
        subprocess.Popen(
            [sys.executable, "-I", str(lay_client(Path(directory)) / "judge"), *words],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        yield process


def judge(*words: str, info_url: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the desk's client to its end, in this process."""
    environment = {"EVOPOLICYGYM_INFO_URL": info_url} if info_url else {}
    with TemporaryDirectory() as directory:
        return run_client(lay_client(Path(directory)), environment, *words)


def ask(run: OpenRun, *words: str) -> "subprocess.CompletedProcess[str]":
    return judge(*words, info_url=info_url(run))


def info_url(run: OpenRun) -> str:
    """Return where the client learns of everything else."""
    return run.door.address.environment["EVOPOLICYGYM_INFO_URL"]


def raw(run: OpenRun, *words: str) -> Any:
    return json.loads(ask(run, *words, "--json").stdout)


def test_submit_prints_a_table(new_run: RunMaker) -> None:
    """A submission is played, waited for and shown, an episode a line, with what is left."""
    with started("submit", "0-1,5", info_url=info_url(new_run())) as process:
        out, _ = process.communicate()
    lines = [line.split() for line in out.splitlines()]

    assert process.returncode == 0
    assert {"0:", "ok,", "5"} <= set(lines[0])
    assert [line[:4] for line in lines[3:6]] == [
        [f"ep_00{place}", str(case), "1.0000", "3"] for place, case in enumerate((0, 1, 5))
    ]


def test_same_key_is_charged_once(new_run: RunMaker) -> None:
    """A submission asked for again with its key costs nothing more."""
    run = new_run()
    answers = [raw(run, "submit", "0-1", "--key", "mine") for _ in range(2)]

    assert [answer["submit_id"] for answer in answers] == [0, 0]
    assert raw(run, "info")["state"]["remaining_budget"] == 6


def test_other_submissions_get_keys_of_their_own(new_run: RunMaker) -> None:
    """Two submissions without a key are two."""
    run = new_run()
    answers = [raw(run, "submit", "3") for _ in range(2)]

    assert [answer["submit_id"] for answer in answers] == [0, 1]


def test_films_are_asked_for_and_listed(new_run: RunMaker) -> None:
    """Cases can be filmed; where each film and its contact sheet lie is printed, or why there is none."""
    run = new_run(films=3)
    done = ask(run, "submit", "0-3", "--films", "3,1").stdout.splitlines()
    run.camera.fault = OSError("no")
    failed = ask(run, "submit", "0", "--films", "0").stdout.splitlines()
    refused = ask(run, "submit", "0", "--films", "0-5")

    for case in (1, 3):
        (line,) = [line for line in done if f"case {case}:" in line]
        assert f"episodes/ep_00{case}/video.png" in line
        assert f"episodes/ep_00{case}/video.mp4" in line
    assert [line for line in failed if "case 0:" in line and "none" in line]
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (1, "budget_invalid")


def test_no_wait_then_wait(new_run: RunMaker) -> None:
    """Who doesn't wait is told at once that it plays, and can wait later without naming the number."""
    run = new_run()
    run.executor.gate.clear()
    early = raw(run, "submit", "0-2", "--no-wait")
    shown = ask(run, "show", "0").stdout
    run.executor.gate.set()
    late = raw(run, "wait")

    assert (early["status"], late["status"]) == ("playing", "ok")
    assert "0 of 3" in shown
    assert "./judge wait 0" in shown


def test_a_check_says_what_it_waits_for(new_run: RunMaker) -> None:
    """A check that waits for play says so at once."""
    run = new_run()
    run.executor.gate.clear()
    ask(run, "submit", "0-2", "--no-wait")
    with started("check", info_url=info_url(run)) as check:
        assert check.stderr is not None
        said = check.stderr.readline()
        run.executor.gate.set()
        out, _ = check.communicate()

    assert "submission 0: 0 of 3" in said
    assert (check.returncode, out) == (0, "ok\n")


def test_list_and_task(new_run: RunMaker) -> None:
    """All submissions are listed with their means; the task is printed as it is."""
    run = new_run()
    ask(run, "submit", "0")

    assert ask(run, "list").stdout.splitlines()[1].split() == ["0", "ok", "1", "1.0000", "0"]
    assert TOY.objective in ask(run, "task").stdout


def test_broken_policy_is_pointed_out(new_run: RunMaker) -> None:
    """Of a policy that can't be loaded it says so by its exit code, and where the reason is."""
    run = new_run()
    run.write_policy("import_error")
    done = ask(run, "submit", "0")

    assert done.returncode == 4
    assert "import_error" in done.stdout
    assert "feedback/submit_000/" in done.stdout
    assert "errors.txt" in done.stdout


@pytest.mark.parametrize("words", [("submit", "0-99"), ("submit", "0-8"), ("show", "7"), ("finish",)])
def test_refusals_end_with_1(new_run: RunMaker, words: tuple[str, ...]) -> None:
    """A refusal is the judge's own sentence, and exit code 1."""
    done = ask(new_run(), *words)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr


@pytest.mark.parametrize("words", [(), ("fly",), ("submit",), ("show", "one")])
def test_wrong_usage_ends_with_2(words: tuple[str, ...]) -> None:
    """What the client doesn't know it refuses by itself, with exit code 2."""
    assert judge(*words, info_url=NOBODY).returncode == 2


def test_no_address_ends_with_3() -> None:
    """Without an address there is no judge: exit code 3, and the variable is named."""
    done = judge("info")

    assert done.returncode == 3
    assert "EVOPOLICYGYM_INFO_URL" in done.stderr


def test_help_has_examples() -> None:
    """The help shows what to type."""
    done = judge("--help")

    assert done.returncode == 0
    assert "./judge submit 0-7" in done.stdout


def test_lost_connection_is_asked_again(new_run: RunMaker, tmp_path: Path) -> None:
    """A judge that is not there at first is asked again until it answers."""
    run = new_run()
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "from judge_client import address, client, command_line\n"
        "calls, connect = [], address.JudgeAddress.connect\n"
        "def flaky(*given):\n"
        "    calls.append(1)\n"
        "    if len(calls) < 3:\n"
        "        raise ConnectionResetError('lost')\n"
        "    return connect(*given)\n"
        "address.JudgeAddress.connect = flaky\n"
        "client.PAUSE_S = 0.0\n"
        "command_line.main('.')\n"
        "print(len(calls))\n"
    )
    line = [sys.executable, "-I", "-c", script, str(lay_client(tmp_path)), "info"]
    done = subprocess.run(line, env=run.door.address.environment, capture_output=True, text=True, check=True)

    assert "episode_budget: 8" in done.stdout.splitlines()
    assert done.stdout.split()[-1] == "3"


@pytest.mark.parametrize(("failing", "said"), [((0, 1, 2), "all"), ((1,), "1")])
def test_failed_episodes_stand_beside_the_status(new_run: RunMaker, failing: tuple[int, ...], said: str) -> None:
    """Whoever reads a status sees in how many episodes the policy failed, in the list too."""
    run = new_run()
    run.executor.failures = dict.fromkeys(failing, Failure(FailureReason.ERROR, "no"))
    submitted = ask(run, "submit", "0-2").stdout.splitlines()[0]
    listed = ask(run, "list").stdout.splitlines()[1]

    assert f"failed in {said} of" in submitted
    assert f"ok, {said} failed" in listed
