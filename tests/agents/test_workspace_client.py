"""The client that lies in a workspace: what it asks, what it prints, how it ends."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.episode import Failure, FailureReason
from fakes import OpenRun, RunMaker
from workspace_client import lay_client

NOBODY = "http://127.0.0.1:9/nobody/info"


def judge(*words: str, info_url: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the desk's client as an agent would, in an empty environment."""
    environment = {"EVOPOLICYGYM_INFO_URL": info_url} if info_url else {}
    with as_file(files("evopolicygym.runs") / "workspace_template" / "judge") as client:
        command = [sys.executable, "-I", str(client), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def ask(run: OpenRun, *words: str) -> "subprocess.CompletedProcess[str]":
    return judge(*words, info_url=run.door.address.environment["EVOPOLICYGYM_INFO_URL"])


def raw(run: OpenRun, *words: str) -> Any:
    return json.loads(ask(run, *words, "--json").stdout)


def test_submit_prints_a_table(new_run: RunMaker) -> None:
    """A submission is played, waited for and shown, an episode a line, with what is left."""
    run = new_run()
    done = ask(run, "submit", "0-1,5")
    lines = [line.split() for line in done.stdout.splitlines()]

    assert done.returncode == 0
    assert lines[0] == ["submission", "0:", "ok,", "5", "episodes", "left"]
    assert [" ".join(line) for line in lines[3:6]] == [
        f"ep_00{place} {case} 1.0000 3 terminated, success" for place, case in enumerate((0, 1, 5))
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

    assert "film of case 3: episodes/ep_003/video.png, episodes/ep_003/video.mp4" in done
    assert "film of case 1: episodes/ep_001/video.png, episodes/ep_001/video.mp4" in done
    assert "film of case 0: none, as the renderer failed" in failed
    assert (refused.returncode, refused.stderr.startswith("budget_invalid: 6 films requested")) == (1, True)


def test_no_wait_then_wait(new_run: RunMaker) -> None:
    """Who doesn't wait is told at once that it plays, and can wait later without naming the number."""
    run = new_run()
    run.executor.gate.clear()
    early = raw(run, "submit", "0-2", "--no-wait")
    shown = ask(run, "show", "0").stdout
    run.executor.gate.set()
    late = raw(run, "wait")

    assert (early["status"], late["status"]) == ("playing", "ok")
    assert shown == "submission 0: playing, 0 of 3 episodes; ./judge wait 0\n"


def test_a_check_says_what_it_waits_for(new_run: RunMaker) -> None:
    """A check that waits for play says so at once."""
    run = new_run()
    run.executor.gate.clear()
    ask(run, "submit", "0-2", "--no-wait")
    with ThreadPoolExecutor(1) as beside:
        check = beside.submit(ask, run, "check")
        while not run.session.trials:
            time.sleep(0.01)
        run.executor.gate.set()

    assert check.result().stderr == "the check waits for submission 0: 0 of 3 episodes\n"
    assert (check.result().returncode, check.result().stdout) == (0, "ok\n")


def test_list_and_task(new_run: RunMaker) -> None:
    """All submissions are listed with their means; the task is printed as it is."""
    run = new_run()
    ask(run, "submit", "0")

    assert ask(run, "list").stdout.splitlines()[1].split() == ["0", "ok", "1", "1.0000", "0"]
    assert "Return the number that stands in the policy." in ask(run, "task").stdout


def test_broken_policy_is_pointed_out(new_run: RunMaker) -> None:
    """Of a policy that can't be loaded it says so by its exit code, and where the reason is."""
    run = new_run()
    run.write_policy("import_error")
    done = ask(run, "submit", "0")

    assert done.returncode == 4
    assert "submission 0: import_error" in done.stdout
    assert "feedback/submit_000/; why it could not be played is in errors.txt" in done.stdout


@pytest.mark.parametrize("words", [("submit", "0-99"), ("submit", "0-8"), ("show", "7"), ("finish",)])
def test_refusals_end_with_1(new_run: RunMaker, words: tuple[str, ...]) -> None:
    """A refusal is the judge's own sentence, and exit code 1."""
    done = ask(new_run(), *words)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(".\n")


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
        "import runpy, sys, urllib.error\n"
        "module = runpy.run_path(sys.argv[1])\n"
        "calls, opener = [], module['OPENER']\n"
        "def flaky(*args, real=opener.open, **named):\n"
        "    calls.append(1)\n"
        "    if len(calls) < 3:\n"
        "        raise ConnectionResetError('lost')\n"
        "    return real(*args, **named)\n"
        "opener.open = flaky\n"
        "module['ask'].__globals__['PAUSE_S'] = 0.0\n"
        "print(module['get']('/info')['episode_budget'], len(calls))\n"
    )
    lay_client(tmp_path)
    named = (tmp_path / "judge").rename(tmp_path / "judge.py")
    environment = run.door.address.environment
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(named)], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["8", "3"]


@pytest.mark.parametrize(
    ("failing", "said", "listed"), [((0, 1, 2), "all", "ok, all failed"), ((1,), "1", "ok, 1 failed")]
)
def test_failed_episodes_stand_beside_the_status(
    new_run: RunMaker, failing: tuple[int, ...], said: str, listed: str
) -> None:
    """Whoever reads a status sees in how many episodes the policy failed, in the list too."""
    run = new_run()
    run.executor.failures = dict.fromkeys(failing, Failure(FailureReason.ERROR, "no"))
    done = ask(run, "submit", "0-2").stdout
    line = ask(run, "list").stdout.splitlines()[1]

    assert f"submission 0: ok, but the policy failed in {said} of its episodes, 5 episodes left" in done
    assert listed in line
