"""Whole runs by six kinds of outside agents, each killed once and resumed: same budget, same score."""

import asyncio
import fcntl
import http.client
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from libraries import needs_library
from served import PATIENCE_S, Served, served

RUN: dict[str, Any] = {"budget": 6, "validation": 2, "held_out": 3, "split": "public", "workers": 1}
WORDS = ("cartpole", "--budget", "6", "--validation", "2", "--held-out", "3", "--split", "public")
EDIT = "\n# an edit\n"
Way = Callable[[Path], None]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what is compared of a run that is never killed: the starter policy, and an edit of it."""
    place = tmp_path_factory.mktemp("undisturbed")
    with evopolicygym.serve("cartpole", runs=place / "runs", **RUN) as session:
        session.submit(episodes=[0, 1])
        policy = session.workspace / "system" / "policy.py"
        session.submit(policy.read_text(encoding="utf-8") + EDIT, episodes=[2, 3, 4, 5])
    return outcome(place)


def outcome(place: Path) -> dict[str, Any]:
    """Return the budget, the score and every submission of the one run below a directory."""
    (file,) = place.rglob("run.json")
    document = json.loads(file.read_bytes())
    submissions = [(entry["checkpoint"], entry["train_mean"], entry["status"]) for entry in document["submissions"]]
    return {"budget": document["budget"], "score": document["outcome"]["score"], "submissions": submissions}


def edit(workspace: Path) -> None:
    """Change the policy as every agent here does."""
    with (workspace / "system" / "policy.py").open("a", encoding="utf-8") as policy:
        policy.write(EDIT)


def by_shell(place: Path, *words: str) -> None:
    """Play by the workspace's client."""
    with served(place, *WORDS, *words) as first:
        first.shell("./judge submit 0-1")
        edit(first.workspace)
        first.shell("./judge submit 2-5 --no-wait")
        first.kill()
    with served(place, "--resume", "latest", *words) as second:
        second.ended()  # its budget was charged, so it plays on and closes without being asked


def by_socket(place: Path) -> None:
    """Play through a Unix socket."""
    by_shell(place, "--socket", str(place / "judge.sock"))


CELLS = """
import os, signal, sys
from contextlib import ExitStack
import evopolicygym
cells, killed = ExitStack(), sys.argv[2] == "killed"
begin = ("cartpole",) if killed else ()
options = {"budget": 6, "validation": 2, "held_out": 3, "split": "public"} if killed else {"resume": "latest"}
session = cells.enter_context(evopolicygym.serve(*begin, runs=sys.argv[1], workers=1, **options))
policy = session.workspace / "system" / "policy.py"
if killed:
    session.submit(episodes=[0, 1])
    os.kill(os.getpid(), signal.SIGKILL)
session.submit(policy.read_text() + "\\n# an edit\\n", episodes=[2, 3, 4, 5])
cells.close()
"""


def by_python(place: Path) -> None:
    """Play as a notebook does: one statement after another in one process."""
    for how, code in (("killed", -signal.SIGKILL), ("resumed", 0)):
        program = [sys.executable, "-c", CELLS, str(place / "runs"), how]
        done = subprocess.run(program, env=os.environ | {"XDG_STATE_HOME": str(place / "state")}, check=False)
        assert done.returncode == code


def call_tools(server: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return what tools answer to the official client."""
    from mcp import Client

    async def ask() -> list[Any]:
        async with Client(server) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(ask())


def by_mcp_stdio(place: Path) -> None:
    """Play by MCP over standard input and output."""
    from mcp import StdioServerParameters

    def server(run: Served) -> StdioServerParameters:
        return StdioServerParameters(
            command=sys.executable, args=["-m", "evopolicygym", "mcp", str(run.workspace)], env=dict(os.environ)
        )

    with served(place, *WORDS) as first:
        call_tools(server(first), ("submit", {"cases": "0-1"}))
        first.kill()
    with served(place, "latest", verb="resume") as second:
        edit(second.workspace)
        call_tools(server(second), ("submit", {"cases": "2-5"}))
        second.ended()


@contextmanager
def mcp_over_http(place: Path, port: int = 0) -> Iterator[dict[str, str]]:
    """Begin a run, or resume it, by ``evopolicygym mcp``; yield the address and the token, and kill the server."""
    words = ["mcp", *WORDS, "--workspace", "work", "--runs", "runs", "--workers", "1", "--http", f"127.0.0.1:{port}"]
    with (place / "mcp.err").open("w+b") as errors:
        server = subprocess.Popen(
            [sys.executable, "-m", "evopolicygym", *words],
            cwd=place,
            env=os.environ | {"XDG_STATE_HOME": str(place / "state")},
            stderr=errors,
        )
        try:
            said = b""
            while b"mcp.env" not in said:
                assert server.poll() is None, said
                said = (place / "mcp.err").read_bytes()
            words = shlex.split(token_file(place).read_text(encoding="utf-8"))
            yield dict(word.split("=", 1) for word in words if "=" in word)
        finally:
            server.kill()
            server.wait()
            kill_player(place)


def token_file(place: Path) -> Path:
    """Return the file with the token, in the one run below a directory."""
    (file,) = place.glob("runs/*/*/*/*/logs/mcp.env")
    return file


def call_over_http(variables: dict[str, str], *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return what tools answer to the official client, which sends the token in a header."""
    from mcp import Client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    async def ask() -> list[Any]:
        headers = {"Authorization": f"Bearer {variables['EVOPOLICYGYM_MCP_TOKEN']}"}
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(variables["EVOPOLICYGYM_MCP_URL"], http_client=http)) as client,
        ):
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(ask())


def kill_player(place: Path) -> None:
    """Kill the process that plays the one run below a directory, if it runs, and wait until it is gone."""
    for entry in Path("/proc").glob("[0-9]*"):
        words = _command_line(entry).split(b"\0")
        if b"serve" in words and f"{place}/work".encode() in words:
            process = os.pidfd_open(int(entry.name))
            os.killpg(int(entry.name), signal.SIGKILL)
            select.select([process], [], [])
            os.close(process)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def by_mcp_http(place: Path) -> None:
    """Play by MCP over HTTP: one command begins the run and resumes it; the token stays the same."""
    with mcp_over_http(place) as first:
        call_over_http(first, ("submit", {"cases": "0-1"}))
        kill_player(place)
    with mcp_over_http(place) as second:
        edit(place / "work")
        call_over_http(second, ("submit", {"cases": "2-5"}))
        tokens = {variables["EVOPOLICYGYM_MCP_TOKEN"] for variables in (first, second)}
        wait_until_scored(place)
    assert len(tokens) == 1


def wait_until_scored(place: Path) -> None:
    """Wait for the process that scores the run, which is nobody's child here."""
    (lock,) = place.glob("runs/*/*/*/*/lock")
    with lock.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def by_enter(place: Path) -> None:
    """Play at a shell inside the sandbox."""
    environment = os.environ | {"XDG_STATE_HOME": str(place / "state"), "TERM": "xterm", "NO_COLOR": "1"}

    @contextmanager
    def terminal(*words: str) -> Iterator["pexpect.spawn[str]"]:
        command = ["-m", "evopolicygym", *words, "--workers", "1", "--runs", str(place / "runs")]
        child = pexpect.spawn(
            sys.executable,
            command,
            env=environment,  # type: ignore[arg-type] # a mapping of texts
            encoding="utf-8",
            codec_errors="replace",
            timeout=PATIENCE_S,
        )
        try:
            child.expect(r"[$#] ")
            yield child
        finally:
            child.close(force=True)

    with terminal("run", *WORDS, "--agent", "shell") as first:
        first.sendline("./judge submit 0-1; echo do''ne")
        first.expect("done")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    with terminal("enter", "latest") as second:
        second.sendline("printf '\\n# an edit\\n' >> system/policy.py; ./judge submit 2-5; exit")
        second.expect(pexpect.EOF)
        second.wait()


WAYS = [
    pytest.param(by_shell, marks=pytest.mark.nightly),
    pytest.param(by_socket, marks=pytest.mark.nightly),
    pytest.param(by_python, marks=pytest.mark.nightly),
    pytest.param(by_mcp_stdio, marks=[pytest.mark.nightly, needs_library("mcp")]),
    pytest.param(by_mcp_http, marks=needs_library("mcp")),
    pytest.param(by_enter, marks=[pytest.mark.nightly, needs_bubblewrap]),
]


@pytest.mark.parametrize("play", WAYS)
def test_a_run_that_is_killed_ends_as_one_that_is_not(tmp_path: Path, undisturbed: dict[str, Any], play: Way) -> None:
    """Charges stay, nothing is charged twice, and the score is that of an undisturbed run."""
    play(tmp_path)

    assert outcome(tmp_path) == undisturbed


@needs_library("mcp")
def test_requests_without_the_token_are_refused(tmp_path: Path) -> None:
    """No token, a wrong one, another host and a browser's page: each is refused, and nothing is charged."""

    def ask(**headers: str) -> int:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        client.request("POST", "/mcp", json.dumps(call), {"Content-Type": "application/json", **headers})
        status = client.getresponse().status
        client.close()
        return status

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "submit", "arguments": {"cases": "0-5"}}  # type: ignore[assignment]
    with mcp_over_http(tmp_path) as variables:
        (found,) = re.findall(r":(\d+)/mcp", variables["EVOPOLICYGYM_MCP_URL"])
        port, right = int(found), {"Authorization": f"Bearer {variables['EVOPOLICYGYM_MCP_TOKEN']}"}
        statuses = [
            ask(),
            ask(Authorization="Bearer guessed"),
            ask(**right, Host="elsewhere.example"),
            ask(**right, Origin="http://localhost"),
            ask(**right, **{"Sec-Fetch-Site": "cross-site"}),
        ]
        (info,) = call_over_http(variables, ("info", {}))
        mode = token_file(tmp_path).stat().st_mode & 0o777
        token = variables["EVOPOLICYGYM_MCP_TOKEN"]
        kill_player(tmp_path)
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in tmp_path.rglob("*.log")]

    assert statuses == [401, 401, 403, 403, 403]
    assert json.loads(info.content[0].text)["state"]["remaining_budget"] == 6
    assert mode == 0o600
    assert not [text for text in logs if token in text or "http://" in text]
