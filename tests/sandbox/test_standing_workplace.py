"""A workplace that stays: commands in it, one after another and at once. Needs bubblewrap."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enclosed import desk, needs_bubblewrap
from evopolicygym.agents.kit.program import run_workplace
from evopolicygym.sandbox.program.standing import (
    Execution,
    RunningCommand,
    StandingWorkplace,
    Terminal,
    WorkplaceLost,
)
from fakes import PATIENCE_S, OpenRun, RunMaker

pytestmark = needs_bubblewrap


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


@pytest.fixture
def workplace(run: OpenRun) -> Iterator[StandingWorkplace]:
    """Give the workplace of the run's agent."""
    with run_workplace(desk(run), run.door) as workplace:
        yield workplace


class Heard:
    """What a command has printed so far."""

    def __init__(self) -> None:
        self.data, self.more = b"", threading.Condition()

    def hear(self, _stream: str, data: bytes) -> None:
        with self.more:
            self.data += data
            self.more.notify_all()

    def until(self, word: bytes, after: bytes = b"") -> bytes:
        """Return all that was printed, once a word is in it, after another word."""
        with self.more:
            assert self.more.wait_for(lambda: word in self.data[self._end_of(after) :], PATIENCE_S), self.data
            return self.data

    def _end_of(self, word: bytes) -> int:
        """Return where a word ends in what was printed, or the end of it all if it isn't there."""
        begin = self.data.find(word)
        return begin + len(word) if begin >= 0 else len(self.data)

    def forget(self) -> None:
        """Begin anew: what was printed so far is no longer waited for."""
        with self.more:
            self.data = b""


def shell(workplace: StandingWorkplace, line: str, data: bytes = b"") -> Execution:
    return workplace.execute(["bash", "-c", line], data, limit_s=PATIENCE_S)


def test_commands_one_after_another(workplace: StandingWorkplace) -> None:
    """Each command has its input, outputs and exit code; files and processes of one are there for others."""
    sleeps = "sleep 1000 >/dev/null 2>&1 & until grep -qx sleep /proc/$!/comm; do :; done"
    first = shell(workplace, f"cat; echo aside >&2; touch /tmp/left; {sleeps}; exit 7", b"given")
    second = shell(workplace, "ls /tmp/left && grep -xl sleep /proc/[0-9]*/comm | wc -l && pwd")

    assert first == Execution(7, b"given", b"aside\n")
    assert second == Execution(0, b"/tmp/left\n1\n/workspace\n", b"")


def test_place_and_variables(workplace: StandingWorkplace) -> None:
    """A command has its directory, relative to the workspace, and its variables beside the judge's address."""
    done = workplace.execute(
        ["bash", "-c", "pwd; echo $ONE; ls $EVOPOLICYGYM_EXECUTE; echo $EVOPOLICYGYM_INFO_URL"],
        directory="system",
        environment={"ONE": "two"},
        limit_s=PATIENCE_S,
    )
    lines = done.stdout.decode().splitlines()

    assert lines[:3] == ["/workspace/system", "two", "policy.py"]
    assert lines[3].startswith("http://127.0.0.1:8700/")


def test_the_judge_answers(workplace: StandingWorkplace, run: OpenRun) -> None:
    """The judge's client works in it."""
    (run.paths.system / "policy.py").write_text("5", encoding="utf-8")
    done = shell(workplace, "./judge submit 0")

    assert (done.code, run.session.state.spent) == (0, 1), done


def test_commands_at_once(workplace: StandingWorkplace) -> None:
    """Commands run beside each other: each of two waits for what the other one writes."""
    heard = [Heard(), Heard()]
    commands = [
        workplace.start(["bash", "-c", f"mkfifo /tmp/{one}; echo made; cat /tmp/{one}"], each.hear)
        for one, each in zip("ab", heard, strict=True)
    ]
    for each in heard:
        each.until(b"made\n")
    for one in "ba":
        assert shell(workplace, f"echo {one} > /tmp/{one}").code == 0

    assert [command.wait(PATIENCE_S) for command in commands] == [0, 0]
    assert [each.data for each in heard] == [b"made\na\n", b"made\nb\n"]


def test_interactive_command(workplace: StandingWorkplace) -> None:
    """A command in a terminal hears what is typed, knows the terminal's size, and is interrupted by Ctrl-C."""
    heard = Heard()
    command = workplace.start(
        ["bash", "--norc", "-i"], heard.hear, environment={"PS1": "> "}, terminal=Terminal(11, 77)
    )
    heard.until(b"> ")
    command.send(b"stty size\n")
    heard.until(b"11 77")
    command.resize(Terminal(12, 78))
    command.send(b"stty size; echo be''gun; cat\n")
    resized = heard.until(b"begun")
    heard.forget()
    command.send(b"\x03")
    heard.until(b"> ")  # before, the terminal would throw away what is typed
    command.send(b"echo code $?\n")
    heard.until(b"> ", after=b"code 130")  # before, the shell may not read the end of its input from the terminal
    command.end_input()

    assert command.wait(PATIENCE_S) == 0
    assert b"12 78" in resized


def test_too_late(workplace: StandingWorkplace) -> None:
    """A command that isn't over in time is killed with what it started; others go on."""
    other = workplace.start(["cat"])
    with pytest.raises(TimeoutError):
        workplace.execute(["bash", "-mc", "sleep 1001 & sleep 1002"], limit_s=0.5)
    gone = shell(workplace, "while grep -zq 100[12] /proc/[0-9]*/cmdline; do sleep 0.05; done")
    other.end_input()

    assert gone.code == 0
    assert other.wait(PATIENCE_S) == 0


def test_much_is_printed(workplace: StandingWorkplace) -> None:
    """A command that prints more than is kept is killed, and what came first is there."""
    done = workplace.execute(["yes"], most_bytes=1000, limit_s=PATIENCE_S)

    assert (done.code, done.stdout, done.stderr, done.cut) == (137, b"y\n" * 500, b"", {"stdout"})


def test_much_is_read(workplace: StandingWorkplace) -> None:
    """Input of any size arrives whole, also where it isn't read."""
    data = os.urandom(3 << 20)

    assert workplace.execute(["cat"], data, limit_s=PATIENCE_S).stdout == data
    assert workplace.execute(["true"], data, limit_s=PATIENCE_S) == Execution(0, b"", b"")


@pytest.mark.parametrize(
    ("command", "directory", "error", "file"),
    [
        ("no-such-program", "", FileNotFoundError, "no-such-program"),
        ("/etc/passwd", "", PermissionError, "/etc/passwd"),
        ("true", "/nowhere", FileNotFoundError, "/nowhere"),
    ],
)
def test_cannot_be_started(
    command: str, directory: str, error: type[OSError], file: str, workplace: StandingWorkplace
) -> None:
    """Why a command can't be started is an error that names what is missing."""
    with pytest.raises(error) as caught:
        workplace.execute([command], directory=directory, limit_s=PATIENCE_S)

    assert caught.value.filename == file


def test_killed_by_a_signal(workplace: StandingWorkplace) -> None:
    """A command that a signal ended has the exit code that a shell would report."""
    assert shell(workplace, "kill -TERM $$").code == 143


def test_lost(workplace: StandingWorkplace) -> None:
    """A command that kills what runs the commands loses the workplace; those under way and later ones say so."""
    other = workplace.start(["sleep", "1000"])
    with pytest.raises(WorkplaceLost):
        shell(workplace, "kill -KILL -1")
    with pytest.raises(WorkplaceLost):
        other.wait(PATIENCE_S)

    assert workplace.lost
    with pytest.raises(WorkplaceLost):
        workplace.start(["true"])


@pytest.mark.parametrize("isolation", ["bubblewrap", "process", "none"])
def test_left(isolation: str, run: OpenRun) -> None:
    """Nothing runs any more once the workplace is left, at any level, and commands under way end with it."""
    started: list[RunningCommand] = []
    seconds = f"4{os.getpid()}{len(isolation)}"  # no other test's
    with run_workplace(replace(desk(run), isolation=isolation), run.door) as workplace:
        started.append(workplace.start(["bash", "-c", f"sleep {seconds}; :"]))
        shell(workplace, f"until grep -zqx '[4]{seconds[1:]}' /proc/[0-9]*/cmdline 2>/dev/null; do sleep 0.05; done")
        inside = set(command_numbers(f"sleep\000{seconds}"))

    assert inside
    with pytest.raises(WorkplaceLost):
        started[0].wait(PATIENCE_S)
    assert not inside & set(command_numbers(f"sleep\000{seconds}"))


def test_findings(workplace: StandingWorkplace, run: OpenRun) -> None:
    """What keeps the commands in is found, as for any program; the run's record is hidden from them."""
    assert {"privileges", "memory", "hidden", "simulators"} <= workplace.findings.keys()
    assert not workplace.limit_exceeded()
    assert shell(workplace, f"ls {run.paths.root}").code == 2


def command_numbers(line: str) -> Iterator[str]:
    """Yield the numbers of processes of this machine that have a command line."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and line in (entry / "cmdline").read_text(encoding="latin-1"):
                yield entry.name
        except OSError:
            continue
