"""What the workspace's client does with feedback and policies: looks at them, compares them, brings them back."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from asking import charges
from evopolicygym.core.rollout import Failure, FailureReason
from fakes import OpenRun, RunMaker
from workspace_client import lay_client, run_client

Done = subprocess.CompletedProcess


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    opened = new_run()
    lay_client(opened.paths.workspace)
    return opened


def judge(run: OpenRun, *words: str) -> "Done[str]":
    return run_client(run.paths.workspace, run.door.address.environment, *words)


def test_cases_as_words(run: OpenRun) -> None:
    """Cases may be words of their own."""
    assert judge(run, "submit", "0", "1", "4-5").returncode == 0
    assert charges(run)[0].env_instances == (0, 1, 4, 5)
    assert judge(run, "list").stdout.splitlines()[1].split()[-1] == "0-1,4-5"


def test_a_policy_that_can_t_be_loaded_ends_with_4(run: OpenRun) -> None:
    """A program sees by the exit code that nothing was played, and a person reads why, in the list too."""
    run.write_policy("import_error")
    done = [judge(run, *words) for words in (("submit", "0"), ("show", "0"), ("check",))]
    listed = judge(run, "list")

    assert [one.returncode for one in (*done, listed)] == [4, 4, 4, 0]
    assert all("it can't" in one.stdout for one in (*done, listed))  # the fake's reason


def test_how_each_episode_ended(run: OpenRun) -> None:
    """The table says how each episode ended, and of a failure why."""
    run.executor.failures = {1: Failure(FailureReason.ERROR, "division by zero", 3)}
    lines = judge(run, "submit", "0-1").stdout.splitlines()

    assert "success" in lines[3]
    assert lines[4].endswith("error: division by zero")


def test_a_value_for_one_submission(run: OpenRun) -> None:
    """Numbers are numbers, other words are text, and what is set is listed."""
    (run.paths.system / "parameters.json").write_text('{"speed": 4.6, "mode": "slow"}')
    done = judge(
        run, "submit", "0", "--set", "speed=5", "--set", "mode=fast", "--expect", "faster", "--parent", "starter"
    )

    assert done.returncode == 0, done.stderr
    assert {"speed=5,", "mode=fast,"} <= set(done.stderr.split())
    assert (charges(run)[0].settings, charges(run)[0].hypothesis) == ({"speed": 5, "mode": "fast"}, "faster")
    for shown in (done, judge(run, "list"), judge(run, "show", "0")):
        assert "speed=5 mode=fast" in shown.stdout
        assert "starter" in shown.stdout
        assert ": faster" in shown.stdout
    assert judge(run, "check", "--set", "sped=1").returncode == 1


def test_numbers_as_people_write_them(run: OpenRun) -> None:
    """A number may begin with its point or a plus; a whole number that gets a decimal is refused with what to do."""
    (run.paths.system / "parameters.json").write_text('{"lift": 0.5, "count": 3, "mode": "slow"}')
    for number, word in enumerate(("-.25", "+.5", "+2")):
        done = judge(run, "submit", "0", "--set", f"lift={word}")
        assert charges(run)[number].settings == {"lift": float(word)}, done.stderr
    judge(run, "submit", "0", "--set", "mode=+true")
    refused = judge(run, "submit", "0", "--set", "count=2.5")

    assert charges(run)[3].settings == {"mode": "+true"}
    assert (refused.returncode, "1.0" in refused.stderr, len(charges(run))) == (1, True, 4)


def test_differences(run: OpenRun) -> None:
    """Two submissions are compared line by line, and one with what lies in system/ now."""
    for text in ("1", "2\n"):
        run.write_policy(text)
        judge(run, "submit", "0")
    (run.paths.system / "new.py").write_text("x = 1\n")
    between, since = judge(run, "diff", "0", "1").stdout, judge(run, "diff", "1").stdout

    assert {"-1", "+2"} <= set(between.splitlines())
    assert {"+x = 1"} == {line for line in since.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}}
    assert not {line[:1] for line in judge(run, "diff", "0", "0").stdout.splitlines()} & {"+", "-", "@"}


def test_all_of_a_policy_comes_back(run: OpenRun) -> None:
    """Restoring removes what was not there, and the next submission says what it was made from."""
    run.write_policy("1")
    judge(run, "submit", "0")
    run.write_policy("2")
    (run.paths.system / "extra.py").write_text("")
    judge(run, "submit", "0")
    done = judge(run, "restore", "0")
    judge(run, "submit", "1")

    assert done.returncode == 0
    assert [path.name for path in run.paths.system.iterdir()] == ["policy.py"]
    assert charges(run)[-1].checkpoint == charges(run)[0].checkpoint
    assert charges(run)[-1].parent == 0


def test_one_file_of_a_policy_comes_back(run: OpenRun) -> None:
    """A path brings back that file and leaves the rest; one that isn't there is named with what is."""
    run.write_policy("1")
    judge(run, "submit", "0")
    run.write_policy("2")
    (run.paths.system / "extra.py").write_text("")
    done = judge(run, "restore", "0", "system/policy.py")
    nowhere = judge(run, "restore", "0", "extra.py")

    assert (done.returncode, (run.paths.system / "policy.py").read_text()) == (0, "1")
    assert (run.paths.system / "extra.py").exists()
    assert (nowhere.returncode, "policy.py" in nowhere.stderr) == (1, True)


def test_two_submissions_on_the_same_cases(run: OpenRun) -> None:
    """Returns and lengths are compared case by case, repeats as their mean, with the error of the difference."""
    for text, cases in (("1", "0,1,1,2"), ("3", "1-3")):
        run.write_policy(text)
        judge(run, "submit", cases)
    done = judge(run, "compare", "0", "1")

    assert [line.split()[0] for line in done.stdout.splitlines()] == ["case", "1", "2", "1"]
    assert done.stdout.splitlines()[1].endswith(" 3 → 3")
    assert re.findall(r"\+?\b\d+", done.stdout.splitlines()[-1]) == ["1", "0", "+2", "0", "2", "2", "0"]
    assert judge(run, "compare", "0", "9").returncode == 1
    assert judge(run, "compare", "0", "0").returncode == 1


def test_several_submissions_against_the_first(run: OpenRun) -> None:
    """Each of the others is paired with the first over the cases that both played; a case that one lacks is a dash."""
    for text, cases in (("1", "0-2"), ("3", "1-2"), ("0", "0,2")):
        run.write_policy(text)
        judge(run, "submit", cases)
    done = judge(run, "compare", "0", "1", "2", "1")
    rows = [line.split() for line in done.stdout.splitlines()]

    assert [row[:4] for row in rows[1:4]] == [["0", "1", "-", "0"], ["1", "1", "3", "-"], ["2", "1", "3", "0"]]
    assert [(row[0], row[5].rstrip(",")) for row in rows[4:]] == [("1", "+2"), ("2", "-1")]


def test_an_episode_as_a_table(run: OpenRun) -> None:
    """Steps are rows, fields columns; the last step and the last observation are always there."""
    judge(run, "submit", "0-1")
    lines = judge(run, "trace", "ep_001", "--every", "2", "--fields", "t,obs.1,reward,info.gain").stdout
    rows = [line.split() for line in lines.splitlines()]

    assert rows[0] == ["t", "obs.1", "reward", "info.gain"]
    assert [row[0] for row in rows[1:-1]] == ["0", "2"]
    assert rows[1][1:] == ["0", "0.3333", "1"]
    assert rows[-1][0] == "terminated"
    assert {"3", "1"} <= set(rows[-1])
    assert "[0 0]" in judge(run, "trace", "1").stdout
    assert "t, obs" in judge(run, "trace", "1", "--fields", "t,observation").stderr
    assert judge(run, "trace", "7").returncode == 1
    assert judge(run, "trace", "seven").returncode == 1


def test_the_observation_after_each_step(run: OpenRun) -> None:
    """A table can show what each action led to: the next row's observation, and the last one of the episode."""
    judge(run, "submit", "0")
    rows = [line.split() for line in judge(run, "trace", "0", "--fields", "obs.1,next_obs.1").stdout.splitlines()]
    steps = rows[1:-1]

    assert [row[1] for row in steps[:-1]] == [row[0] for row in steps[1:]]


def test_episodes_as_arrays(run: OpenRun) -> None:
    """An exported episode has one observation more than steps, and the file is where it was asked for."""
    judge(run, "submit", "0-1")
    done = judge(run, "export", "0", "ep_001", "--json")
    files = json.loads(done.stdout)["files"]
    with np.load(run.paths.workspace / files[1]) as arrays:
        shapes = {name: len(array) for name, array in arrays.items()}

    assert files == ["notes/ep_000.npz", "notes/ep_001.npz"]
    assert shapes == {"observations": 4, "actions": 3, "rewards": 3, "terminated": 3, "truncated": 3}
    assert judge(run, "export", "7").returncode == 1


def test_the_end_of_the_budget_is_said(run: OpenRun) -> None:
    """The submission that spends the budget says that the run closes; the list stays readable when the judge left."""
    first, last = judge(run, "submit", "0-3").stdout, judge(run, "submit", "4-7").stdout
    run.door.close()
    listed = judge(run, "list")

    assert "closing" not in first
    assert "closing" in last
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == ["0", "1"]


def test_pictures_that_a_policy_saw(run: OpenRun) -> None:
    """Where observations are pictures, their frames are written as PNG files into notes/."""
    judge(run, "submit", "0")
    episode = run.feedback(0) / "episodes" / "ep_000"
    episode.chmod(0o755)
    pictures = np.arange(4 * 16 * 12 * 3, dtype=np.uint8).reshape(4, 16, 12, 3)
    np.savez(episode / "observations.npz", observations=pictures)
    done = judge(run, "frames", "0", "0,3")
    first = run.paths.workspace / "notes" / "ep_000_step_0.png"

    assert done.returncode == 0, done.stderr
    assert first.read_bytes().startswith(b"\x89PNG")
    assert "step 4" in judge(run, "frames", "0", "4").stderr
    assert "[[[" not in judge(run, "trace", "0", "--fields", "t,obs.0.0").stdout


def test_pictures_that_there_are_not(run: OpenRun) -> None:
    """Where nothing is a picture and no film was made, it says how to have one."""
    judge(run, "submit", "0")
    done = judge(run, "frames", "0", "0,3")

    assert (done.returncode, "--films CASE" in done.stderr) == (1, True)


def test_a_reader_that_leaves(run: OpenRun) -> None:
    """Who reads a line and leaves gets no traceback."""
    judge(run, "submit", "0")
    line = f"{sys.executable} judge trace 0 | true"
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", f"for i in 1 2 3; do {line}; done"],
        env=run.door.address.environment, cwd=run.paths.workspace, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stderr == ""


def test_the_run_is_closed(run: OpenRun) -> None:
    """After the budget is spent and the judge has left, the client says that, at once, and shows what is here."""
    judge(run, "submit", "0-7")
    run.door.close()
    done = judge(run, "submit", "0")
    shown = judge(run, "show", "0")

    assert (done.returncode, done.stderr.partition(":")[0]) == (1, "closed")
    assert (shown.returncode, json.loads(judge(run, "show", "0", "--json").stdout)["status"]) == (0, "ok")


def test_the_judge_has_left_with_its_address(run: OpenRun) -> None:
    """Without any address it says that the run is closed where feedback shows that, and else that nobody plays it."""

    def alone(*words: str) -> "Done[str]":
        return run_client(run.paths.workspace, {}, *words)

    judge(run, "submit", "0-3")
    before = [alone(*words) for words in (("info",), ("submit", "0"))]
    judge(run, "submit", "4-7")
    after = [alone(*words) for words in (("info",), ("submit", "0"), ("diff", "0"))]

    assert [(one.returncode, one.stderr.partition(":")[0] == "closed") for one in before] == [(3, False)] * 2
    assert not any("charged" in one.stderr for one in before)
    assert [one.stderr.partition(":")[0] for one in after] == ["closed"] * 3


def test_a_run_that_was_closed_with_budget_left(run: OpenRun) -> None:
    """Who comes back after the end is told why it ended and whether it is over, with the code of a refusal."""
    judge(run, "submit", "0-3")
    said = []
    for over in (False, True):
        document = json.dumps({"reason": "finish_asked", "over": over})
        (run.paths.workspace / "closed.json").write_text(document, encoding="utf-8")
        said.append(run_client(run.paths.workspace, {}, "submit", "4"))

    assert [(done.returncode, done.stderr.partition(":")[0]) for done in said] == [(1, "closed")] * 2
    assert ["over. " in done.stderr and "validated" not in done.stderr for done in said] == [False, True]
    assert all("finished" in done.stderr for done in said)


def test_nothing_is_submitted_yet(run: OpenRun) -> None:
    """A list without submissions says so."""
    assert judge(run, "list").stdout.startswith("No submissions")


def test_bounds_that_are_the_same_are_one_number(run: OpenRun) -> None:
    """A person reads a bound once where all elements have it; the judge's own answer has each."""
    whole = json.loads(judge(run, "info", "--json").stdout)["env_meta"]["obs_space"]
    line = next(line for line in judge(run, "info").stdout.splitlines() if line.strip().startswith("obs_space: "))
    shown = json.loads(line.partition(": ")[2])

    assert [isinstance(space["low"], list) for space in (whole, shown)] == [True, False]
    assert whole["low"] == [shown["low"]] * len(whole["low"])


def test_its_own_limits(run: OpenRun) -> None:
    """An agent is told what it may use itself."""
    limits = json.loads(judge(run, "info", "--json").stdout)["agent_limits"]

    assert limits.keys() >= {"max_turns", "max_time_s", "max_cost_usd", "max_tokens", "max_quiet_s", "tokens_used"}


def test_the_client_writes_nothing_beside_itself(run: OpenRun) -> None:
    """No compiled files appear in a workspace."""
    line = [sys.executable, "judge", "list"]
    subprocess.run(line, env=run.door.address.environment, cwd=run.paths.workspace, check=True)

    assert not list(run.paths.workspace.rglob("__pycache__"))
