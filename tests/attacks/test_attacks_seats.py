"""Every verb of every seat in a workspace full of traps: it ends with a message, and touches nothing outside of it.

Seats run with the rights of their user, and whoever plays may write the workspace: links, pipes, devices, directories
in place of files, files that are not what the judge wrote, addresses of anything.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from evopolicygym.agents.kit.evaluator import load_error_of
from evopolicygym.core.errors import SandboxError
from evopolicygym.judge_client import client
from evopolicygym.judge_client.address import ADDRESS_FILE
from evopolicygym.judge_client.command_line import run as run_judge
from evopolicygym.sandbox.program import view
from fakes import OpenRun, RunMaker
from libraries import needs_library
from ordinary_user import ordinary_user
from ordinary_user import run as run_python

ROOT = Path(__file__).parents[2]
KEPT = "what the host keeps"
LAYOUTS: tuple[tuple[str, ...], ...] = (
    ("system", "notes", "feedback", "judge.env", "closed.json"),
    ("system/policy.py", "system/more/part.py", "notes/ep_000.npz", "feedback/submit_000"),
    ("system/more", *(f"feedback/submit_000/{name}" for name in ("summary.json", "errors.txt", "episodes/ep_000"))),
    tuple(f"feedback/submit_000/episodes/ep_000/{name}" for name in ("trajectory.jsonl", "observations.npz")),
)
"""Where traps lie at once."""
JUDGE: tuple[tuple[str, ...], ...] = (
    *(("info",), ("task",), ("list",), ("show", "0"), ("show", "7"), ("wait",), ("check",)),
    *(("feedback", "0"), ("feedback", "0", "errors.txt"), ("feedback", "0", "../../../host/secret")),
    *(("compare", "0", "1"), ("trace", "0"), ("trace", "0", "--fields", "obs.0,info"), ("export", "0")),
    *(("export", "0", "--to", "../host"), ("export", "0", "--to", "system/more"), ("frames", "0", "0")),
    *(("frames", "0", "0", "--to", "notes"), ("diff", "0"), ("diff", "0", "1"), ("restore", "0", "more/part.py")),
    *(("restore", "0"), ("submit", "0", "--key", "mine")),
)
TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("info", {}), ("task", {}), ("submissions", {}), ("show", {"submission": 0}), ("check", {})),
    *(("feedback", {"submission": 0}), ("feedback", {"submission": 0, "file": "../../../host/secret"})),
    *(("compare", {"first": 0, "second": 1}), ("trace", {"episode": 0}), ("export", {"episodes": [0]})),
    *(("export", {"episodes": [0], "to": "../host"}), ("frames", {"episode": 0, "steps": "0"})),
    *(("diff", {"first": 0}), ("restore", {"submission": 0, "path": "more/part.py"}), ("restore", {"submission": 0})),
    ("submit", {"cases": "0", "key": "mine"}),
)


def link_to(name: str) -> Callable[[Path, Path], object]:
    return lambda place, host: place.symlink_to(host / name)


def write_host_device(place: Path, _: Path) -> None:
    try:
        os.mknod(place, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


def sparse(place: Path, _: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 40)


def bound_socket(place: Path, host: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(host.parent / "s"))
    (host.parent / "s").rename(place)


WRONG_TYPES = (
    '{"returns": 1, "env_instances": "0", "first_global_episode": "x", "submissions": 7, "files": 7, "status": {}}'
)
TRAPS: dict[str, Callable[[Path, Path], object]] = {
    "link to a directory": link_to("."),
    "link to a file": link_to("secret"),
    "link to nothing": link_to("new"),
    "link to a device": lambda place, _: place.symlink_to("/dev/zero"),
    "link to itself": lambda place, _: place.symlink_to(place.name),
    "pipe": lambda place, _: os.mkfifo(place),
    "socket": bound_socket,
    "device": write_host_device,
    "directory": lambda place, _: (place / "full" / "of").mkdir(parents=True),
    "nothing": lambda *_: None,
    "empty": lambda place, _: place.write_bytes(b""),
    "not text": lambda place, _: place.write_bytes(bytes(range(256))),
    "deep": lambda place, _: place.write_text("[" * 100_000),
    "a number": lambda place, _: place.write_text("7"),
    "a list": lambda place, _: place.write_text('[{"returns": 1}]'),
    "wrong types": lambda place, _: place.write_text(WRONG_TYPES),
    "sparse": sparse,
    "unreadable": lambda place, _: (place.write_text("{}"), place.chmod(0)),
}
QUICK = {"link to a directory", "pipe", "empty"}
"""Tried in the gate; the others nightly."""
ALL_TRAPS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.nightly) for name in TRAPS]


class Trapped:
    """A run with two submissions, and workspaces of it that are trapped."""

    def __init__(self, run: OpenRun, place: Path) -> None:
        self.run, self.place, self.host = run, place, place / "host"
        (run.paths.system / "more").mkdir()
        (run.paths.system / "more" / "part.py").write_text("1\n")
        for key in ("first", "second"):
            assert self.ask(run.paths.workspace, "submit", "0-1", "--key", key)[0] == 0
        (self.host / "episodes" / "ep_000").mkdir(parents=True)
        for name in ("secret", "policy.py", "part.py", "summary.json", "errors.txt", "ep_000.npz", "trajectory.jsonl"):
            (self.host / name).write_text(json.dumps({"x": KEPT}))
        self.before = self.seen()

    def seen(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.host.rglob("*") if path.is_file()}

    @contextmanager
    def workspace(self, places: tuple[str, ...], trap: str) -> Iterator[Path]:
        """Yield a copy of the workspace with a trap in each of some places."""
        work = self.place / "work"
        shutil.copytree(self.run.paths.workspace, work)
        (work / "notes").mkdir(exist_ok=True)
        for directory in (work, *(path for path in work.rglob("*") if path.is_dir())):
            directory.chmod(0o755)
        for place in places:
            target = work / place
            if target.is_dir():
                shutil.rmtree(target)
            target.unlink(missing_ok=True)
            TRAPS[trap](target, self.host)
        try:
            yield work
        finally:
            shutil.rmtree(work)

    def ask(self, work: Path, *words: str) -> tuple[int, str]:
        """Run a command of ``./judge``; return its exit code, and all that it printed."""
        out = StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(out):
            for name, value in self.run.door.address.environment.items():
                patch.setenv(name, value)
            return run_judge(str(work), [*words]), out.getvalue()


@pytest.fixture
def trapped(new_run: RunMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trapped]:
    """Return it; a verb that waits for ever is ended, with the stack of where it waits."""

    def too_long(*_: object) -> None:
        raise AssertionError("a verb waits for ever")

    monkeypatch.setattr(client, "PAUSE_S", 0.0)
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(100)
    yield Trapped(new_run(), tmp_path)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("trap", ALL_TRAPS)
def test_judge_in_a_trapped_workspace(trapped: Trapped, trap: str) -> None:
    """`./judge` ends each verb by an exit code of its own; the host keeps what it has, and its secret."""
    failed = []
    for places in LAYOUTS:
        with trapped.workspace(places, trap) as work:
            for words in JUDGE:
                code, said = trapped.ask(work, *words)
                if code not in {0, 1, 3, 4} or KEPT in said or trapped.seen() != trapped.before:
                    failed.append((places, words, code, said[:300]))

    assert failed == []


@needs_library("mcp")
@pytest.mark.parametrize("trap", ALL_TRAPS)
def test_tools_in_a_trapped_workspace(trapped: Trapped, trap: str) -> None:
    """An MCP tool answers, or says why it can't, and the host keeps what it has, and its secret."""
    from evopolicygym.agents.kit.mcp_server import judge_tools

    addresses = trapped.place / "logs.env"
    variables = trapped.run.door.address.environment
    addresses.write_text("".join(f"export {name}={value}\n" for name, value in variables.items()))
    failed = []
    for places in LAYOUTS:
        with trapped.workspace(places, trap) as work:
            server = judge_tools(work, addresses)
            for tool, arguments in TOOLS:
                said = answered(server, tool, arguments)
                if "Traceback" in said or KEPT in said or trapped.seen() != trapped.before:
                    failed.append((places, tool, arguments, said[:300]))

    assert failed == []


def answered(server: Any, tool: str, arguments: dict[str, Any]) -> str:
    """Return the text of a tool's answer, or of its error."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        return str(asyncio.run(server.call_tool(tool, arguments)))
    except ToolError as error:
        return str(error)


LOCALHOST = "export EVOPOLICYGYM_INFO_URL=http://localhost/x/info"
ADDRESSES = {
    "empty": b"",
    "not text": bytes(range(128, 256)),
    "open quote": b"export EVOPOLICYGYM_INFO_URL='http://127.0.0.1",
    **{
        url: f"export EVOPOLICYGYM_INFO_URL='{url}'\n".encode()
        for url in (
            "file:///etc/passwd",
            "ftp://127.0.0.1/x/info",
            "https://127.0.0.1:1/x/info",
            "http://",
            "http:///info",
            "http://127.0.0.1:99999/x/info",
            "http://127.0.0.1:-1/x/info",
            "http://127.0.0.1:x/x/info",
            "http://[::1/x/info",
            "http://127.0.0.1:1/a b\r\nX: y/info",
            "http://\u2100.example/x/info",
            f"http://{'a' * 300}.invalid/x/info",
            "127.0.0.1:1",
            "http://127.0.0.1:1/x/info",
        )
    },
    **{
        f"socket {path[:20]}": f"{LOCALHOST} EVOPOLICYGYM_SOCKET='{path}'\n".encode()
        for path in ("/", "/etc/passwd", "/nowhere", "a" * 300, "\0x", "/dev/zero")
    },
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """What is not the address of a judge is asked nothing, and said as such, with the exit code for it."""
    monkeypatch.setattr(client, "PAUSE_S", 0.0)
    for name in [name for name in os.environ if name.startswith("EVOPOLICYGYM_")]:
        monkeypatch.delenv(name)
    (tmp_path / ADDRESS_FILE).write_bytes(ADDRESSES[address])
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        codes = [run_judge(str(tmp_path), [*words]) for words in (("info",), ("list",), ("submit", "0"), ("task",))]

    assert codes == [3] * 4
    assert "root:" not in out.getvalue()


class Impostor(BaseHTTPRequestHandler):
    """Answers as no judge does."""

    status, content, location = 200, b"", ""

    def answer(self) -> None:
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()
        self.wfile.write(self.content)

    do_GET = do_POST = answer  # noqa: N815 - the library's

    def log_message(self, *_: object) -> None:
        """Say nothing."""


IMPOSTORS: dict[str, dict[str, Any]] = {
    "a page": {"content": b"<html>"},
    "nothing": {},
    "a number": {"content": b"7"},
    "an empty object": {"content": b"{}"},
    "a deep list": {"content": b"[" * 100_000},
    "wrong types": {"content": WRONG_TYPES.encode()},
    "files elsewhere": {"content": b'{"files": {"../host/secret": "eA==", "/tmp/x": "eA=="}}'},
    "too much": {"content": b" " * 5000},
    "a redirect": {"status": 302, "location": "file:///etc/passwd"},
    "an error without words": {"status": 500, "content": b"\xff"},
}


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_what_answers_is_no_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impostor: str) -> None:
    """Whatever answers at an address, each verb ends by an exit code of its own, and writes nothing elsewhere."""
    monkeypatch.setattr(client, "PAUSE_S", 0.0)
    monkeypatch.setattr(client, "MAX_ANSWER", 1000)
    work, host = tmp_path / "work", tmp_path / "host"
    for directory in (work / "system", host):
        directory.mkdir(parents=True)
    handler = type("Handler", (Impostor,), IMPOSTORS[impostor])
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("EVOPOLICYGYM_INFO_URL", f"http://127.0.0.1:{server.server_port}/x/info")
        out, codes = StringIO(), {}
        with redirect_stdout(out), redirect_stderr(out):
            for words in JUDGE:
                codes[words] = run_judge(str(work), [*words])
        server.shutdown()

    assert {words: code for words, code in codes.items() if code not in {0, 1, 3, 4}} == {}
    assert [*host.iterdir()] == []
    assert "root:" not in out.getvalue()


def test_a_session_follows_no_link(tmp_path: Path) -> None:
    """Why a policy could not be loaded is read from the judge's file, not from what lies in its place."""
    (tmp_path / "secret").write_text(KEPT)
    for place, trap in (("linked", "link to a file"), ("piped", "pipe"), ("full", "directory")):
        (tmp_path / place).mkdir()
        TRAPS[trap](tmp_path / place / "errors.txt", tmp_path)

        assert load_error_of(tmp_path / place) == ""


@pytest.mark.parametrize("name", ["", "system", "notes"])
def test_a_shell_is_not_opened_behind_a_link(tmp_path: Path, name: str) -> None:
    """`enter`, Inspect and agents' programs see no directory that a link in the workspace's place leads to."""
    work, host = tmp_path / "work", tmp_path / "host"
    for directory in (work / "system", work / "notes", host / "system"):
        directory.mkdir(parents=True)
    target = work / name
    shutil.rmtree(target)
    target.symlink_to(host)

    with pytest.raises(SandboxError, match="link"):
        [*view.words(work, ["true"], 1 << 20)]


@pytest.mark.nightly
@pytest.mark.needs_root
def test_the_same_as_an_ordinary_user() -> None:
    """Who isn't root has the same answers, whatever can't be read."""
    words = ordinary_user()
    chosen = ["-k", "trapped or addresses or no_judge", "-m", "not needs_root"]
    with TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp", f"{place}/tests"]
        config = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), __file__]
        done = run_python(words, "-m", "pytest", *options, *chosen, *config)

    assert done.returncode == 0, done.stdout[-3000:]
