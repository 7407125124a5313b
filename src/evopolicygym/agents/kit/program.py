"""An agent's program in its sandbox: started once and watched, or in the user's terminal with a person at it.

Its output is kept in the transcript, and nothing of it runs when this is over. ``run_workplace`` opens the sandbox of a
run's agent for commands (``sandbox/program/standing.py``). The agents decide what a program's end means.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType
from typing import Self

from evopolicygym.core import regular_file
from evopolicygym.core.agent import AgentLimits, JudgeEndpoint, Workspace
from evopolicygym.core.errors import AgentError, SandboxError, UsageError
from evopolicygym.core.places import state_directory
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelAddress
from evopolicygym.sandbox.base import JUDGE_PORT, MODEL_PORT, Program, RunningProgram, Serve
from evopolicygym.sandbox.levels import program_sandbox
from evopolicygym.sandbox.program.standing import RunningCommand, StandingWorkplace, Terminal, WorkplaceLost

GRACE_S = 5.0
"""Seconds that a program has between being asked to end and being killed."""
READ_S = 5.0
"""Seconds within which the last output of an ended program must have been read."""
LOOK_S = 0.05
OUTPUT_BYTES = 64 << 20
"""The most that is kept of what a run's programs print."""
CUT = b"\n[what came after this was not kept]\n"
LAST_BYTES, LAST_WORDS = 8192, 400
"""Of a program's output: how many bytes are read for its last line, and how many characters of that are said."""
SHELL = ("bash",)
"""What commands are run by, so that it must be there."""
DEFAULT_LIMITS = AgentLimits()


NO_ENDPOINTS: Mapping[int, Serve] = MappingProxyType({})
CHUNK = 1 << 14
RUN_OVER = b"\r\nThe run takes no more submissions; its best checkpoint is scored now.\r\n"


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started, and in what."""

    command: tuple[str, ...]
    limits: AgentLimits
    home: Path | None = None
    """A directory of this machine that is its home; None for a home that is gone with the program."""
    equip: Callable[[ModelAddress], Mapping[str, str]] = lambda endpoint: endpoint.environment
    """Called with the model's address before the program starts; returns the environment variables that name it."""
    hear: Callable[[bytes], None] = lambda _data: None
    """Called with what the program prints, as it comes, by a thread of its own."""
    over: Callable[[], str] = lambda: ""
    """Asked a few times a second; a sentence that it returns ends the program."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a start ended."""

    findings: Mapping[str, str]
    """What was found to keep the program in, by name."""
    code: int | None = None
    """Its exit code; None where it was ended from outside."""
    limit: str = ""
    """The limit that it passed, in a sentence."""
    over: str = ""
    """What ``Launch.over`` said."""


def run_program(
    launch: Launch, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None, stop: Event
) -> ProgramEnd:
    """Run a program until it ends, goes over a limit, or ``stop`` is set.

    Raises ``AgentError`` where it can't be started and ``SandboxError`` where it can't be ended.
    """
    try:
        found, program = _start_program(launch, workspace, endpoint, model)
    except SandboxError as error:
        raise AgentError(str(error)) from error
    limit = over = ""
    with _transcript(program, workspace.transcript, launch.hear):
        try:
            while program.process.poll() is None and not limit and not over and not stop.wait(LOOK_S):
                limit = program.limit_exceeded()
                over = launch.over()
            ended_by_itself = program.process.poll() is not None
        finally:
            program.terminate(0.0 if limit else GRACE_S)
    code = program.process.returncode if ended_by_itself else None
    return ProgramEnd({**found, **program.findings}, code, limit, over)


def last_words(code: int, transcript: Path) -> str:
    """Return in a sentence with which exit code a program ended, and the last line that it printed."""
    with regular_file.reader(transcript) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    last = next((words for line in reversed(lines) if (words := " ".join(line.split()))), "it printed nothing")
    return f"the program ended with exit code {code}: {last if len(last) <= LAST_WORDS else last[:LAST_WORDS] + ' …'}"


def _start_program(
    launch: Launch, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None
) -> tuple[Mapping[str, str], RunningProgram]:
    """Start a program at its workspace's isolation; return what was found there before, and the program."""
    sandbox = program_sandbox(workspace.isolation)
    program = Program(
        launch.command, workspace.directory, launch.limits, launch.home, workspace.simulators, workspace.policy_packages
    )
    endpoints: dict[int, Serve] = {JUDGE_PORT: lambda listener: endpoint.serve(listener).environment}
    if model:
        endpoints[MODEL_PORT] = lambda listener: launch.equip(model.serve(listener))
    found = sandbox.preflight(program, [workspace.directory.parent, state_directory()])
    return found, sandbox.start(program, endpoints)


@contextmanager
def _transcript(program: RunningProgram, transcript: Path, hear: Callable[[bytes], None]) -> Iterator[None]:
    """Write what the program prints into its transcript, until it is gone."""
    output = program.process.stdout
    if output is None:
        raise AgentError("The agent's program was started without a pipe for its output.")
    # Read by a thread that ends when every process of the program is gone, as nobody else holds the pipe.
    thread = Thread(target=_copy_output, args=(output.fileno(), transcript, hear), name="transcript", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(READ_S)
        if not thread.is_alive():
            output.close()


def _copy_output(source: int, transcript: Path, hear: Callable[[bytes], None]) -> None:
    with TranscriptFile(transcript) as kept:
        while data := os.read(source, 1 << 16):
            kept.write(data)
            hear(data)


class TranscriptFile:
    """The file that keeps what a run's programs print, as far as there is room."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = regular_file.appender(path)
        self._room = OUTPUT_BYTES - self._file.tell()
        """Negative once the cut is marked."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Write what there is room for."""
        if self._room < 0:
            return
        self._file.write(data[: self._room])
        self._room -= len(data)
        if self._room < 0:
            self._file.write(CUT)
        self._file.flush()


def run_workplace(
    workspace: Workspace,
    endpoint: JudgeEndpoint,
    limits: AgentLimits = DEFAULT_LIMITS,
    command: Sequence[str] = SHELL,
    others: Mapping[int, Serve] = NO_ENDPOINTS,
) -> StandingWorkplace:
    """Return the workplace of a run, at its isolation, in which the judge answers; it is made when it is entered.

    ``command`` is a program that must be there. ``others`` answer in it besides, by their ports.

    Raises ``SandboxError`` where the isolation keeps no program in.
    """
    program = Program(
        command, workspace.directory, limits, simulators=workspace.simulators, packages=workspace.policy_packages
    )
    return StandingWorkplace(
        program_sandbox(workspace.isolation),
        program,
        {JUDGE_PORT: lambda listener: endpoint.serve(listener).environment, **others},
        [workspace.directory.parent, state_directory()],
    )


def refuse_no_terminal(what: str) -> None:
    """Raise ``UsageError`` where nobody is at a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{what} needs a terminal on standard input and output; what is here is piped.")


def run_in_terminal(
    launch: Launch, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None, stop: Event
) -> ProgramEnd:
    """Run a program in the user's terminal until it ends, goes over a limit, or ``stop`` is set.

    Raises ``AgentError`` where it can't be started, or nobody is at a terminal.
    """
    others = {MODEL_PORT: lambda listener: launch.equip(model.serve(listener))} if model else {}
    try:
        refuse_no_terminal("The agent")
        with (
            TranscriptFile(workspace.transcript) as transcript,
            run_workplace(workspace, endpoint, launch.limits, launch.command, others) as workplace,
        ):
            code, limit, over = attach_terminal(workplace, launch.command, stop, transcript.write, launch.over)
            return ProgramEnd(workplace.findings, code, limit, over)
    except (UsageError, OSError) as error:
        raise AgentError(str(error)) from error


def attach_terminal(
    workplace: StandingWorkplace,
    command: tuple[str, ...],
    stop: Event,
    hear: Callable[[bytes], object] = lambda _: None,
    spent: Callable[[], str] = lambda: "",
) -> tuple[int | None, str, str]:
    """Run a command in the user's terminal; return its exit code, the limit that it passed, and what ``spent`` said.

    The code is None where it was ended from outside. Raises ``OSError`` where it can't be started.
    """

    def show(_stream: str, data: bytes) -> None:
        os.write(sys.stdout.fileno(), data)
        hear(data)

    limit = over = ""
    with _raw_terminal() as keys:
        size = _terminal_size()
        running = workplace.start(command, show, terminal=size)
        while not (running.end.done() or stop.is_set() or limit or over):
            size = _pass_on(running, keys, size)
            limit, over = workplace.limit_exceeded(), spent()
        with suppress(WorkplaceLost):
            running.kill()
        if stop.is_set():
            os.write(sys.stdout.fileno(), RUN_OVER)
    try:
        return (running.wait(0) if running.end.done() else None), limit, over
    except WorkplaceLost:
        return None, limit, over


def _pass_on(running: RunningCommand, keys: int, size: Terminal) -> Terminal:
    """Pass on what is typed, and how large the terminal is, which is returned."""
    with suppress(WorkplaceLost):
        if select.select([keys], [], [], LOOK_S)[0]:
            if typed := os.read(keys, CHUNK):
                running.send(typed)
            else:
                running.end_input()
        if (now := _terminal_size()) != size:
            running.resize(now)
            return now
    return size


def _terminal_size() -> Terminal:
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return Terminal(rows, columns)


@contextmanager
def _raw_terminal() -> Iterator[int]:
    """Have the terminal pass every key on as it is typed; it is as before in the end."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setraw(keys)
    try:
        yield keys
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
