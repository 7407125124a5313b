"""`evopolicygym serve`: a run whose agent is a shell on this machine, by HTTP and by a socket, killed and resumed."""

import http.client
import json
import re
import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from served import BEGIN, PATIENCE_S, served
from shell import Shell


def ask(address: str, host: str, method: str = "GET", body: str = "", **headers: str) -> int:
    """Return the status of a request that names a host."""
    at = urlsplit(address)
    client = http.client.HTTPConnection(str(at.hostname), at.port, timeout=PATIENCE_S)
    with closing(client):
        client.request(method, at.path, body or None, headers={"Host": host, **headers})
        return client.getresponse().status


def test_a_shell_is_the_agent_and_outlives_a_crash(tmp_path: Path) -> None:
    """What was charged stays charged; the resumed run has new addresses, which the workspace's client finds."""
    with served(tmp_path, *BEGIN) as first:
        first.shell("./judge submit 0-1")
        first.kill()
    with served(tmp_path, "--resume", "latest") as second:
        said = second.shell(". ./judge.env; ./judge submit 0-1 >&2; ./judge submit 0-1")
        document = second.ended()

    assert "0 episodes left" in said
    assert document["budget"] == {"episodes": 6, "spent": 6, "submissions": 3}
    assert document["outcome"]["closed"] == "budget_spent"  # type: ignore[index]


@pytest.mark.nightly
@pytest.mark.parametrize("lost", [False, True])
def test_a_workspace_of_the_users_outlives_a_crash(tmp_path: Path, *, lost: bool) -> None:
    """The resumed run finds it where it was; where it is lost, it is laid anew with the policy that was submitted."""
    work = tmp_path / "work"
    with served(tmp_path, *BEGIN, "--workspace", str(work)) as first:
        first.shell("echo '# mine' >> system/policy.py; ./judge submit 0-1")
        first.kill()
    again = ("--workspace", str(work)) if lost else ()
    if lost:
        shutil.rmtree(work)
    with served(tmp_path, "--resume", "latest", *again) as second:
        said = second.shell("tail -n 1 system/policy.py; ls feedback; ./judge submit 0-3")
        document = second.ended()

    assert said.splitlines()[:2] == ["# mine", "submit_000"]
    assert document["budget"] == {"episodes": 6, "spent": 6, "submissions": 2}
    assert sorted(path.name for path in (work / "feedback").iterdir()) == ["submit_000", "submit_001"]


def test_a_run_at_a_socket_outlives_a_crash(tmp_path: Path) -> None:
    """The socket is its owner's alone, that of a killed run is in nobody's way, and it is gone with the run.

    A workspace of the user's that is lost is laid anew with the policy that was submitted.
    """
    path, work = tmp_path / "judge.sock", tmp_path / "work"
    places = ("--socket", str(path), "--workspace", str(work))
    with served(tmp_path, *BEGIN, *places) as first:
        first.shell("echo '# mine' >> system/policy.py; ./judge submit 0-3")
        mode = path.lstat().st_mode & 0o777
        first.kill()
    shutil.rmtree(work)
    with served(tmp_path, "--resume", "latest", *places) as second:
        said = second.shell("tail -n 1 system/policy.py; ls feedback; cat judge.env; ./judge submit 0-1")
        document = second.ended()

    assert mode == 0o600
    assert said.splitlines()[:2] == ["# mine", "submit_000"]
    assert str(path) in said
    assert document["budget"] == {"episodes": 6, "spent": 6, "submissions": 2}
    assert sorted(path.name for path in (work / "feedback").iterdir()) == ["submit_000", "submit_001"]
    assert not path.exists()


def test_what_lies_in_place_of_the_address_file_is_replaced(tmp_path: Path) -> None:
    """A directory or a link there keeps no run from being served, and what the link names stays as it is."""
    work, host = tmp_path / "work", tmp_path / "host"
    host.write_text("mine", encoding="utf-8")
    with served(tmp_path, *BEGIN, "--workspace", str(work)) as first:
        first.shell("./judge submit 0-1")
        first.kill()
    (work / "judge.env" / "full").mkdir(parents=True)
    with served(tmp_path, "--resume", "latest") as second:
        second.shell("./judge submit 0-1")
        second.kill()
    (work / "judge.env").symlink_to(host)
    with served(tmp_path, "--resume", "latest") as third:
        third.shell("./judge submit 0-1")
        document = third.ended()

    assert document["budget"] == {"episodes": 6, "spent": 6, "submissions": 3}
    assert host.read_text(encoding="utf-8") == "mine"


def test_a_proxy_in_the_environment_is_not_asked_for_the_judge(tmp_path: Path) -> None:
    """A program that sources the address file reaches the judge, and keeps the hosts that its user named."""
    ask = "import os, urllib.request as r; print(r.urlopen(os.environ['EVOPOLICYGYM_INFO_URL']).status)"
    with served(tmp_path, *BEGIN) as run:
        said = run.shell(
            "export http_proxy=http://127.0.0.1:9 NO_PROXY=mine.example; unset no_proxy; . ./judge.env; "
            f'{sys.executable} -c "{ask}"; echo $NO_PROXY'
        )

    assert said.splitlines() == ["200", "mine.example,127.0.0.1"]


def test_only_allowed_names_and_the_token_are_answered(tmp_path: Path) -> None:
    """Another name of this machine, a guessed token and a page of a browser are refused with nothing charged."""
    with served(tmp_path, *BEGIN, "--listen", "127.0.0.1:0", "--allow-host", "judge") as run:
        (address,) = re.findall(r"INFO_URL=(\S+)", run.shell("cat judge.env"))
        guessed = re.sub(r"/[^/]+/info", "/guessed/info", address)
        found = [ask(address, "judge:80"), ask(address, "elsewhere"), ask(guessed, "judge")]
        pages = [
            ask(address.replace("/info", "/submit"), "judge", method="POST", body='{"env_instances": "0"}', **headers)
            for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"})
        ]
        info = json.loads(run.shell("./judge --json info"))

    assert found == [200, 403, 404]
    assert pages == [403, 403, 403]
    assert info["state"]["remaining_budget"] == 6


def test_a_port_that_is_taken_is_refused(tmp_path: Path, shell: Shell) -> None:
    """Nothing is made, and the message says what was asked."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        left = shell("serve", *BEGIN, "--listen", at, "--runs", tmp_path / "runs")

    assert left.code == 2
    assert at in left.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "words", [("run", "cartpole", "--agent", "outside"), ("serve", "cartpole", "--resume", "latest")]
)
def test_what_needs_serving_is_said(tmp_path: Path, shell: Shell, words: tuple[str, ...]) -> None:
    """The name of the agent alone serves nothing, and a resumed run takes no task."""
    left = shell(*words, "--runs", tmp_path / "runs")

    assert left.code == 2
    assert "serve" in left.err or "workspace" in left.err


def test_what_is_served_is_served_once(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process that would serve, resume or enter the run is refused, and the first one goes on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with served(tmp_path, *BEGIN) as run:
        workspace = run.workspace
        for words in (("serve", "--resume", "latest"), ("resume", "latest")):
            left = shell(*words, "--runs", tmp_path / "runs")
            assert left.code in {2, 3}
            assert "process" in left.err
        said = run.shell("./judge submit 0-5")
        run.ended()

    assert workspace.is_dir()
    assert "0 episodes left" in said


def test_two_agents_at_once_share_one_budget(tmp_path: Path) -> None:
    """What is more than the budget is refused with nothing charged; a run that is finished early is scored."""
    with served(tmp_path, *BEGIN) as run:
        said = run.shell("for i in 1 2 3 4; do (./judge submit 0-3 || echo refused) & done; wait")
        closing = run.shell("./judge finish")
        document = run.ended()
    printed = "".join((tmp_path / name).read_text(encoding="utf-8") for name in ("out", "err"))

    assert said.count("refused") == 3
    assert "closing" in closing
    assert "options: finish" in printed
    assert document["budget"] == {"episodes": 6, "spent": 4, "submissions": 1}
    assert document["outcome"]["closed"] == "finish_asked"  # type: ignore[index]
    assert document["stage"] == "finished"


def test_a_limit_of_time_ends_the_run(tmp_path: Path) -> None:
    """An agent that does nothing is waited for no longer than its user said."""
    with served(tmp_path, *BEGIN, "--max-time", "1s") as run:
        document = run.ended()

    assert document["outcome"]["closed"] == "allowance_spent"  # type: ignore[index]


@pytest.mark.nightly
def test_what_was_submitted_within_the_limit_of_time_is_scored(tmp_path: Path) -> None:
    """The run goes on to its score with what there is when the time is up."""
    with served(tmp_path, *BEGIN, "--max-time", "8s") as run:
        run.shell("./judge submit 0-1")
        document = run.ended()

    assert document["outcome"]["closed"] == "allowance_spent"  # type: ignore[index]
    assert document["budget"] == {"episodes": 6, "spent": 2, "submissions": 1}


def test_an_earlier_policy_comes_back(tmp_path: Path) -> None:
    """`check` is free and says what is wrong; `restore` has system/ hold what a submission held, and nothing else.

    Times are read without an exponent, and nothing is said of a success that the environment doesn't know.
    """
    with served(tmp_path, *BEGIN) as run:
        played = run.shell("./judge submit 0-1; echo 'raise ValueError(1)' > system/policy.py; touch system/more.py")
        wrong = run.shell("./judge check || test $? -eq 4")
        run.shell("./judge restore 0")
        right, names = run.shell("./judge check"), run.shell("ls system")
        info = json.loads(run.shell("./judge --json info"))

    assert wrong.startswith("import_error: ")
    assert "ValueError: 1" in wrong
    assert re.fullmatch(r"ok \(constructed in [\d.]+ m?s, acted in [\d.]+ m?s\)\n", right)
    assert re.search(r"\nact: [\d.]+ m?s of processor time on average, [\d.]+ m?s in ", played)
    assert "success" not in played
    assert names == "policy.py\n"
    assert info["state"]["remaining_budget"] == 4
