"""Bombs in an agent's hands (A08), bounded by limits set low; and that nothing of an agent outlives its turn."""

import json
import os
import secrets
import subprocess
from pathlib import Path
from threading import Event

import pytest

from enclosed import command_lines, needs_bubblewrap, played_by, printed, stop_once_printed, turn
from evopolicygym.agents.base import make
from evopolicygym.agents.kit import program
from evopolicygym.agents.kit.judge_client import JudgeClient
from evopolicygym.core.agent import AgentConfig, AgentEnd, Turn
from evopolicygym.core.errors import SandboxError, UsageError
from evopolicygym.core.event import Event as RunEvent
from evopolicygym.core.event import RunClosed, RunStatus
from evopolicygym.core.run import RunState
from evopolicygym.records.verify import findings
from evopolicygym.runs import turns
from evopolicygym.sandbox import cgroup, limits
from fakes import OpenRun, RunMaker

pytestmark = needs_bubblewrap


BY_A_CONTROL_GROUP = pytest.param("by a control group", marks=pytest.mark.needs_root)


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


def answers(run: OpenRun) -> bool:
    """Return whether the judge answers."""
    return JudgeClient(run.door.address, Event()).info().episode_budget > 0


def detonated(run: OpenRun, script: str, **limits: int) -> Turn:
    """Play a bomb; meanwhile and afterwards the judge answers, and nothing of it is left."""
    mark = secrets.token_hex(8)
    ended = turn(run, "python3", "-c", script, mark, **limits)

    assert answers(run)
    assert mark not in command_lines()
    return ended


FORKS = """
import os, sys, time
for _ in range(400):
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except OSError:
        print("refused", flush=True)
        sys.exit(0)
print("all started", flush=True)
time.sleep(600)
"""


@pytest.mark.needs_root
def test_fork_bomb(run: OpenRun) -> None:
    """A08: more processes than allowed are refused or end the program; the next program starts normally."""
    ended = detonated(run, FORKS, processes=100)

    assert " 100 " in ended.message or "refused" in run.paths.transcript.read_text(encoding="utf-8")
    assert "0 done" in printed(
        run, "sh", "-c", "for i in 1 2 3 4; do (true) & done; wait; ./judge submit 0; echo $? done"
    )


def test_memory_bomb(run: OpenRun) -> None:
    """A08: more memory than allowed ends the program; our own processes go on."""
    script = "import time\nheld = [bytearray(b'x' * (16 << 20)) for _ in range(40)]\nprint('held')\ntime.sleep(600)"
    ended = detonated(run, script, memory_mb=256)

    assert ended.end is AgentEnd.CRASHED
    assert "256 MiB" in ended.message or "exit code" in ended.message


SHARED = {
    "anonymous": "held = mmap.mmap(-1, 1 << 20)\n    held.write(bytes(1 << 20))\n    kept.append(held)",
    "memfd": "kept.append(os.memfd_create('kept'))\n    os.write(kept[-1], bytes(1 << 20))",
    "tmpfs": "open(f'/dev/shm/{place}', 'wb').write(bytes(1 << 20))",
}


@pytest.mark.parametrize("counted", [BY_A_CONTROL_GROUP, "from outside"])
@pytest.mark.parametrize("how", SHARED)
def test_memory_that_is_nobodys_own(how: str, counted: str, run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A08: memory that processes share, and files in memory, count as any does."""
    if counted == "from outside":
        monkeypatch.setattr(cgroup, "_parent", lambda _: None)
    elif not cgroup.can_be_made():
        pytest.skip("no control group can be made here")
    body = f"import mmap, os, time\nkept = []\nfor place in range(240):\n    {SHARED[how]}\n"
    ended = detonated(run, f"{body}print('all of it', flush=True)\ntime.sleep(600)", memory_mb=200)
    told = run.paths.transcript.read_text(encoding="utf-8")

    assert ended.end is AgentEnd.CRASHED
    assert ("200 MiB" in ended.message) == (counted == "from outside")
    assert told in ({""} if counted == "by a control group" else {"", "all of it\n"})


def test_only_what_lies_in_memory_is_counted(tmp_path: Path) -> None:
    """A08: a disk that is mounted over a file system in memory is none; what lies in another such one is counted."""
    covered, seen = tmp_path / "covered", tmp_path / "seen"
    covered.mkdir()
    seen.mkdir()
    script = f"""
mount -t tmpfs tmpfs {covered} && mount --rbind / {covered} && mount -t tmpfs tmpfs {seen} || exit 77
head -c 1048576 /dev/zero > {seen}/file; echo ready; read _
"""
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip("no file system can be mounted here")
        others = limits.memory_of_file_systems("/proc/self")
        found = limits.memory_of_file_systems(f"/proc/{process.pid}")
        process.communicate("\n")

    assert found - others == pytest.approx(1 << 20, abs=1 << 19)


def test_segments_that_outlive_processes(run: OpenRun) -> None:
    """A08: no shared memory of System V can be made, which would belong to no process and no file."""
    script = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.shmget(0, 1 << 20, 0o1600))"

    assert printed(run, "python3", "-c", script) == "-1\n"


@pytest.mark.parametrize("counted", [BY_A_CONTROL_GROUP, "from outside"])
def test_thread_bomb(counted: str, run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A08: more threads than allowed are refused or end the program, also where the judge is root."""
    if counted == "from outside":
        monkeypatch.setattr(cgroup, "_parent", lambda _: None)
    body = (
        "import _thread, threading, time\nthreading.stack_size(32 << 10)\n"
        "for _ in range(400): _thread.start_new_thread(time.sleep, (600,))\ntime.sleep(600)\nprint('all of them')"
    )
    ended = detonated(run, body, processes=100)
    told = run.paths.transcript.read_text(encoding="utf-8")

    assert ended.end is AgentEnd.CRASHED
    assert " 100 " in ended.message or "can't start new thread" in told


def test_disk_bomb_in_scratch(run: OpenRun) -> None:
    """A08: the home, /tmp and /dev/shm take no more than their size, whatever is written."""
    script = """
import os
for place, most in (("/tmp", 16), (os.environ["HOME"], 16), ("/dev/shm", 256)):
    written = 0
    try:
        with open(place + "/bomb", "wb", buffering=0) as file:
            while written <= most + 16 << 20:
                written += file.write(bytes(1 << 20))
        print("no end", place)
    except OSError as error:
        print(error.strerror, written <= most << 20)
    os.unlink(place + "/bomb")
"""
    detonated(run, script, scratch_mb=16)

    assert run.paths.transcript.read_text(encoding="utf-8") == "No space left on device True\n" * 3


@pytest.mark.parametrize(
    ("script", "limits", "why"),
    [
        ("[open(f'system/{n}', 'wb').write(bytes(1 << 20)) for n in range(40)]", {"system_mb": 8}, "8 MiB"),
        ("[open(f'system/{n}', 'w').close() for n in range(900)]", {"system_files": 500}, "500"),
        ("[os.makedirs('n') or os.chdir('n') for n in range(99)]", {}, "64"),
    ],
    ids=["bytes", "files", "depth"],
)
def test_bomb_in_the_project(run: OpenRun, script: str, limits: dict[str, int], why: str) -> None:
    """A08: more than may lie in system/ ends the program, and the reason is told."""
    at = "os.chdir('system')\n" if "chdir" in script else ""
    ended = detonated(run, f"import os, time\n{at}{script}\ntime.sleep(600)", **limits)

    assert (ended.end, "system/" in ended.message, why in ended.message) == (AgentEnd.CRASHED, True, True)


def test_one_large_file(run: OpenRun) -> None:
    """A08: a single file, even one that has no name any more, grows to its limit and not beyond."""
    script = """
import os
file = open("system/large", "wb", buffering=0)
os.unlink("system/large")
try:
    while True:
        file.write(bytes(1 << 20))
except OSError as error:
    print(error.strerror, file.tell() >> 20)
"""
    detonated(run, script, system_mb=8)

    assert run.paths.transcript.read_text(encoding="utf-8") == "File too large 8\n"


def test_reserve_of_the_disk(run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A08: a program is ended before the disk of the record is full, whatever it was that filled it."""
    monkeypatch.setattr(limits.Watch, "_over_system", lambda _: "")
    monkeypatch.setattr(limits, "RESERVE_BYTES", 1 << 60)
    looked = limits.Watch(run.paths.workspace, program.AgentLimits(), None)
    looked._bytes *= 4

    assert (bool(looked.limit_exceeded()), looked.limit_exceeded()) == (True, "")  # it looks again after a while


def test_log_bomb(run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A08: of what a program prints no more is kept than the cap; it isn't held up, and the judge's disk not filled."""
    monkeypatch.setattr(program, "OUTPUT_BYTES", 100_000)
    ended = detonated(run, "import sys\nfor _ in range(4):\n sys.stdout.write('x' * (1 << 20))")

    assert ended.end is AgentEnd.FINISHED
    assert run.paths.transcript.stat().st_size < 101_000


@pytest.mark.needs_root
def test_processor_hogs_come_last(run: OpenRun) -> None:
    """A08: programs that compute without end run behind everything else, and can't raise themselves."""
    script = """
import os, subprocess, sys, time
hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
print(os.getpriority(os.PRIO_PROCESS, 0), flush=True)
try:
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)
    print("raised", flush=True)
except PermissionError:
    print("refused", flush=True)
subprocess.run(["./judge", "submit", "0-1"], check=True)
"""
    ended = detonated(run, script)
    printed_lines = run.paths.transcript.read_text(encoding="utf-8").splitlines()
    lower = str(min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10))

    assert (ended.end, printed_lines[:2]) == (AgentEnd.FINISHED, [lower, "refused"])


def test_unknown_limit() -> None:
    """An unknown limit is refused with the known ones, an invalid value with its limit."""
    for options, names in (
        ({"memory": 5}, r"memory_mb.*processes"),
        ({"memory_mb": 0}, "memory_mb"),
        ({"memory_mb": "5"}, "memory_mb"),
        ({"processes": True}, "processes"),
    ):
        with pytest.raises(UsageError, match=names):
            make(AgentConfig("command", options=options, command=("true",)))


STAYING = """
import os, signal, subprocess, sys, time
def stay():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(0.05)
open("system/policy.py", "w").write(sys.argv[1])
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            stay()
        os._exit(0)
subprocess.run(["./judge", "submit", "0-1"])
stay()
"""


def test_agent_is_gone_before_anything_hidden_is_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A04: daemons in sessions of their own, deaf to every signal, are gone when the run closes for validation."""
    monkeypatch.setattr(program, "GRACE_S", 0.2)
    monkeypatch.setattr(turns, "AGENT_LAST_WORDS_S", 0.2)
    mark, left = secrets.token_hex(8), []

    def look(event: RunEvent, _state: RunState) -> None:
        if isinstance(event, RunClosed):
            left.append(command_lines().count(mark))

    told = played_by(tmp_path / "runs", "python3", "-c", STAYING, "GOOD", mark, watch=look)

    assert left == [0]
    assert told.state.finished is not None
    assert told.state.finished.status is RunStatus.SCORED


def test_agent_that_cannot_be_ended_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something of an agent may still run, nothing hidden is played: the run stops, to be resumed."""

    def stays(*_: object) -> None:
        raise SandboxError("The agent's processes were still there.")

    monkeypatch.setattr("evopolicygym.sandbox.program.started.StartedProgram._end", stays)
    with pytest.raises(SandboxError, match="still there"):
        played_by(tmp_path / "runs", "true")

    assert list(tmp_path.glob("runs/*/*/*/*/evaluation")) == []


def test_findings_are_recorded(tmp_path: Path) -> None:
    """What was found to hold an agent in stands in its turn's event and beside the isolation level in run.json."""
    told = played_by(tmp_path / "runs", "true")
    isolation = json.loads(told.paths.document.read_text(encoding="utf-8"))["isolation"]

    assert isolation["level"] == "bubblewrap"
    assert set(isolation["agent"]) >= {"simulators", "hidden", "privileges", "seccomp", "memory", "processes", "system"}
    assert [one for one in findings(told.paths.root) if not one.ok] == []


def test_hundreds_of_processes_are_stopped(run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with hundreds of processes is gone after its grace."""
    monkeypatch.setattr(program, "GRACE_S", 0.2)
    mark = secrets.token_hex(8)
    forks = "for _ in range(200):\n if not os.fork():\n  break"
    script = f"import os, time\n{forks}\nprint('ready', flush=True)\ntime.sleep(600)"
    ended = turn(run, "python3", "-c", script, mark, stop=stop_once_printed(run, "ready"))

    assert ended.end is AgentEnd.STOPPED
    assert mark not in command_lines()
