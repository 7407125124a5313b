"""Where an agent's program works: what it sees, what it reaches, and that it is gone afterwards."""

import os
import platform
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from socket import socket
from threading import Thread
from zipfile import ZipFile

import numpy as np
import pytest

from enclosed import command_lines, needs_bubblewrap, printed, python, stop_once_printed, turn
from evopolicygym.core.agent import AgentEnd, AgentLimits
from evopolicygym.core.errors import AgentError
from evopolicygym.sandbox.base import JUDGE_PORT, MODEL_PORT
from evopolicygym.sandbox.program import view
from evopolicygym.sandbox.program.enclosed import enclosed, preflight
from fakes import PATIENCE_S, OpenRun, RunMaker
from workspace_client import lay_client

pytestmark = needs_bubblewrap


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


def test_workspace_and_environment(run: OpenRun) -> None:
    """A program starts in /workspace, with an empty environment but for its places and the judge's addresses."""
    place, environment = python(run, "import os, json; print(json.dumps([os.getcwd(), dict(os.environ)]))")
    names = {"PATH", "HOME", "LANG", "PWD", "LC_CTYPE", *run.door.address.environment}

    assert (place, environment["HOME"], set(environment) - names) == ("/workspace", "/home/agent", set())


def test_system_is_writable_and_nothing_else(run: OpenRun) -> None:
    """Only system/, the home and what is for temporary files take any; the workspace, the system and the root don't."""
    places = "/workspace/system /home/agent /tmp /var/tmp /var /workspace /workspace/feedback /usr /etc / /usr/bin"
    script = f"for place in {places}; do touch $place/new 2>/dev/null && echo $place; done; true"

    assert printed(run, "sh", "-c", script).split() == [
        *("/workspace/system", "/home/agent", "/tmp", "/var/tmp")  # noqa: S108
    ]
    assert (run.paths.system / "new").exists()


def test_notes_are_writable_and_stay(run: OpenRun) -> None:
    """What a program writes down in its notes lies in the record when it is gone."""
    run.paths.notes.mkdir()
    printed(run, "sh", "-c", "echo found it > notes/first.md; mkdir notes/more")

    assert (run.paths.notes / "first.md").read_text(encoding="utf-8") == "found it\n"
    assert (run.paths.notes / "more").is_dir()


def test_python_imports_what_policies_can(run: OpenRun) -> None:
    """The program's Python is that of policies: it imports the same numpy, and so the starter policy."""
    script = (
        "import sys, numpy, scipy; sys.path.insert(0, 'system'); import policy\n"
        "print(numpy.__version__, '%d.%d.%d' % sys.version_info[:3], policy.Policy.__name__)"
    )
    template = Path(view.__file__).parents[2] / "runs" / "workspace_template"
    shutil.copy(template / "system" / "policy.py", run.paths.system)

    assert printed(run, "python3", "-c", script).split() == [np.__version__, platform.python_version(), "Policy"]


def test_python_imports_no_simulator(run: OpenRun) -> None:
    """What could play uncounted episodes is not there for it."""
    names = ["gymnasium", "evopolicygym", "minigrid", "highway_env", "mujoco"]
    script = f"import importlib.util as i, json; print(json.dumps([n for n in {names} if i.find_spec(n)]))"

    assert python(run, script) == []


@pytest.mark.needs_root
def test_host_is_hidden(run: OpenRun, state_home: Path, tmp_path: Path) -> None:
    """The record, the secrets, the home and other directories of this machine are not there."""
    state_home.mkdir()
    hidden = [run.paths.journal, state_home, tmp_path, Path.home() / ".profile", Path("/etc/shadow"), Path("/var/log")]
    script = f"import os, json; print(json.dumps([path for path in {list(map(str, hidden))} if os.path.exists(path)]))"

    assert python(run, script) == []


def test_processes_are_hidden(run: OpenRun) -> None:
    """A program sees its own processes only, and no path of ours on their command lines or in their environments."""
    script = (
        "import glob; print([open(f, 'rb').read() for f in glob.glob('/proc/[0-9]*/cmdline') + ['/proc/1/environ']])"
    )
    told = printed(run, "python3", "-c", script)

    assert str(run.paths.root) not in told
    assert str(os.getpid()) not in told.split()


def test_only_the_judge_answers(run: OpenRun) -> None:
    """The judge is reached by its address; this machine's own loopback is not."""
    port = int(run.door.address.base_url.split(":")[2].split("/")[0])
    script = (
        "import os, socket, urllib.request as r\n"
        "print(r.urlopen(os.environ['EVOPOLICYGYM_INFO_URL']).status)\n"
        f"s = socket.socket(); print(s.connect_ex(('127.0.0.1', {port})) != 0)\n"
        "print(sorted(name for _, name in socket.if_nameindex()))"
    )

    assert printed(run, "python3", "-c", script).split() == ["200", "True", "['lo']"]


def test_two_doors(run: OpenRun) -> None:
    """A workplace may have a second door, with a server of its own behind it and variables of its own."""

    def serve_model(listener: socket) -> dict[str, str]:
        def answer() -> None:
            with listener, listener.accept()[0] as caller:
                caller.sendall(b"the model")

        Thread(target=answer, daemon=True).start()
        return {"MODEL_PORT": str(listener.getsockname()[1])}

    script = (
        "import os, socket, urllib.request as r\n"
        "print(r.urlopen(os.environ['EVOPOLICYGYM_INFO_URL']).status)\n"
        "print(socket.create_connection(('127.0.0.1', int(os.environ['MODEL_PORT']))).recv(99))"
    )
    doors = {JUDGE_PORT: lambda listener: run.door.serve(listener).environment, MODEL_PORT: serve_model}
    occupant = enclosed(("python3", "-c", script), run.paths.workspace, doors, AgentLimits())
    told, _ = occupant.process.communicate(timeout=PATIENCE_S)
    occupant.terminate(0)

    assert told.split(b"\n")[:2] == [b"200", b"b'the model'"]


def test_desk_client_works_inside(run: OpenRun) -> None:
    """The client that lies in the workspace submits from inside, and its feedback appears there."""
    lay_client(run.paths.workspace)
    told = printed(run, "sh", "-c", "python3 judge submit 0-1 && ls feedback")

    assert "submission 0: ok" in told
    assert told.split()[-1] == "submit_000"


def test_named_file_is_visible(run: OpenRun, tmp_path: Path) -> None:
    """A file that the command names by absolute path is there under the same path, read-only, without its siblings."""
    (tmp_path / "mine").mkdir()
    mine, other = tmp_path / "mine" / "agent.sh", tmp_path / "mine" / "other.txt"
    mine.write_text('ls "$(dirname "$0")"; echo more >> "$0" || echo read-only', encoding="utf-8")
    other.touch()

    assert printed(run, "sh", str(mine)).split("\n")[0] == "agent.sh"
    assert "read-only" in run.paths.transcript.read_text(encoding="utf-8")


def test_own_python_runs_without_simulators(run: OpenRun) -> None:
    """A program may be a virtual environment's Python: it finds its packages, but no simulator."""
    script = "import numpy, sys; print(sys.prefix)\ntry:\n import gymnasium\nexcept ImportError:\n print('none')"

    assert printed(run, sys.executable, "-c", script).split() == [sys.prefix, "none"]


def test_own_python_runs_without_this_package(run: OpenRun, tmp_path: Path) -> None:
    """What lies in the packages of a virtual environment is seen, less this package: references and anchors are its."""
    packages = tmp_path / "own" / "lib" / "python3.11" / "site-packages"
    for name in ("evopolicygym", "evopolicygym-1.0.dist-info", "gymnasium", "other"):
        (packages / name).mkdir(parents=True)
    program = tmp_path / "own" / "look"
    program.write_text(f"#!/bin/sh\nls {packages}\n", encoding="utf-8")
    program.chmod(0o755)

    assert printed(run, "sh", "-c", "$0 $1", str(program), str(tmp_path / "own")).split() == ["other"]


def test_script_with_own_python(run: OpenRun, tmp_path: Path) -> None:
    """A script by absolute path is started by the Python that its first line names."""
    script = tmp_path / "agent.py"
    script.write_text(f"#!{sys.executable}\nimport numpy\nprint('played')\n", encoding="utf-8")
    script.chmod(0o755)

    assert printed(run, str(script)) == "played\n"


def test_preflight_finds_a_simulator(run: OpenRun, tmp_path: Path) -> None:
    """A Python that could import a simulator, which no name of a file tells of, stops the run before it starts."""
    packages = tmp_path / "odd" / "bundle"
    packages.parent.mkdir()
    with ZipFile(packages, "w") as bundle:
        bundle.writestr("mujoco/__init__.py", "")
    odd = packages.with_name("python3")
    odd.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec python3 "$@"\n', encoding="utf-8")
    odd.chmod(0o755)

    with pytest.raises(AgentError, match="mujoco"):
        turn(run, str(odd), str(packages))


def test_preflight_finds_the_record(run: OpenRun) -> None:
    """A command that names a directory above the run is refused: the record could be read."""
    with pytest.raises(AgentError, match=str(run.paths.root)):
        turn(run, "ls", str(run.paths.root))


def test_preflight_says_what_it_looked_at(run: OpenRun) -> None:
    """What was looked for is told, with the Pythons that were tried."""
    found: Mapping[str, str] = preflight(("sh",), run.paths.workspace, [])

    assert "/" in found["simulators"]


def test_program_that_is_not_there(run: OpenRun) -> None:
    """A program that does not exist inside is an agent's error, by its name."""
    with pytest.raises(AgentError, match="no-such-program"):
        turn(run, "no-such-program")


def test_exit_code_is_told(run: OpenRun) -> None:
    """A program's own exit code and last words come back."""
    ended = turn(run, "sh", "-c", "echo no model; exit 7")

    assert ended.end is AgentEnd.CRASHED
    assert ("exit code 7" in ended.message, "no model" in ended.message) == (True, True)


def test_polite_program_can_say_goodbye(run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is stopped is asked first."""
    monkeypatch.setattr("evopolicygym.agents.kit.program.GRACE_S", PATIENCE_S)
    stop = stop_once_printed(run, "ready")
    script = "trap 'echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    ended = turn(run, "sh", "-c", script, stop=stop)

    assert ended.end is AgentEnd.STOPPED
    assert "goodbye" in run.paths.transcript.read_text(encoding="utf-8")


@pytest.mark.parametrize("last", ["exit 0", "trap '' TERM; while :; do sleep 0.05; done"])
def test_nothing_is_left(run: OpenRun, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the turn is over no process of it runs, whatever it has started and however it ended."""
    monkeypatch.setattr("evopolicygym.agents.kit.program.GRACE_S", 0.2)
    token = f"{10**9 + secrets.randbelow(10**9)}.5"
    stop = stop_once_printed(run, "ready")
    turn(run, "sh", "-c", f"setsid env -i sleep {token} & sleep {token} & echo ready; {last}", stop=stop)

    assert token not in command_lines()


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_packages_of_node(run: OpenRun, tmp_path: Path) -> None:
    """A program that npm installed is started through its links, and finds the packages that lie beside its own."""
    packages = tmp_path / "tools" / "node_modules"
    for name, text in {
        "tool/bin/tool.js": "#!/usr/bin/env node\nconsole.log(require('helper'), process.argv.slice(2))\n",
        "helper/index.js": "module.exports = 'helped'\n",
    }.items():
        file = packages / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    (packages / ".bin").mkdir()
    (packages / ".bin" / "tool").symlink_to("../tool/bin/tool.js")
    (tmp_path / "tools" / "secret.txt").touch()
    words = view.launch_command(packages / ".bin" / "tool")

    assert printed(run, *words, "now") == "helped [ 'now' ]\n"
    assert str(tmp_path / "tools" / "secret.txt") not in [*view.words(run.paths.workspace, words, 1 << 20)]
