"""Runs an agent's program in its sandbox: unattended, or in the user's terminal.

The output goes to the transcript, and no process of the program survives. ``run_workplace`` opens the sandbox of a
run's agent for commands (``sandbox/program/standing.py``).
"""

import os
import select
import sys
import tempfile
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Event, Thread
from time import monotonic
from types import MappingProxyType
from typing import Self

from evopolicygym.core import regular_file
from evopolicygym.core.agent import SYSTEM, AgentEnd, AgentLimits, JudgeEndpoint, Workspace
from evopolicygym.core.causes import Failure, Outcome, Part, outcome_of
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import AgentError, SandboxError, UsageError
from evopolicygym.model_proxy.failures import Trouble
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelAddress
from evopolicygym.sandbox.base import JUDGE_PORT, MODEL_PORT, Program, ProgramExit, RunningProgram, Serve
from evopolicygym.sandbox.levels import program_sandbox
from evopolicygym.sandbox.program.standing import RunningCommand, StandingWorkplace, Terminal, WorkplaceLost

VERSION_S = 10.0
"""Seconds in which a program must tell its version."""
GRACE_S = 5.0
"""Seconds between asking a program to end and killing it."""
READ_S = 5.0
"""Seconds for reading the last output of an ended program."""
LOOK_S = 0.05
OUTPUT_BYTES = 64 << 20
"""Maximum size of a transcript."""
CUT = b"\n[what came after this was not kept]\n"
LAST_BYTES, LAST_CHARACTERS = 8192, 400
"""Bytes of output that are searched for the last line, and characters of that line that are quoted."""
SHELL = ("bash",)
"""The program that runs commands."""
DEFAULT_LIMITS = AgentLimits()
NO_ENDPOINTS: Mapping[int, Serve] = MappingProxyType({})
CHUNK = 1 << 14
RUN_OVER = b"\r\nThe run takes no more submissions; its best checkpoint is scored now.\r\n"


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start, and its surroundings."""

    command: tuple[str, ...]
    limits: AgentLimits
    home: Path | None = None
    """A directory of this machine as its home; None for a temporary one."""
    equip: Callable[[ModelAddress], Mapping[str, str]] = lambda endpoint: endpoint.environment
    """Called with the model's address before the program starts; returns the environment variables that name it."""
    on_output: Callable[[bytes], None] = lambda _data: None
    """Called with the program's output as it arrives, in a separate thread."""
    stop_reason: Callable[[], str] = lambda: ""
    """Called several times a second; the program is terminated once it returns a reason."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended."""

    findings: Mapping[str, str]
    """Guarantees found for its sandbox, by name."""
    code: int | None = None
    """Its exit code, negative for a signal; None if it was terminated."""
    limit: str = ""
    """The limit that it exceeded, as a sentence."""
    stop_reason: str = ""
    """The result of ``Launch.stop_reason``."""

    @property
    def killed(self) -> str:
        """A sentence on who killed the program, if that pauses the run; empty otherwise.

        A signal that the program or its children sent can't be told from one from outside.
        """
        return "" if self.limit else killed_message(self.code)


def killed_message(code: int | None) -> str:
    """Return a sentence on who killed a program with this exit code, if that pauses the run; empty otherwise."""
    failure = Failure.of_code(Part.AGENT, code)
    return f"the program was {failure.killed}" if outcome_of(failure) is Outcome.RUN_PAUSES else ""


def sandbox_killed(exited: ProgramExit | None) -> str:
    """Return the same of a whole sandbox, of which a command may only end what runs the commands; empty if it runs."""
    return killed_message(exited.code) if exited and exited.with_sandbox else ""


def run_program(
    launch: Launch, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None, stop: Event
) -> ProgramEnd:
    """Run a program until it ends, exceeds a limit, or ``stop`` is set.

    Raises ``AgentError`` if it can't be started and ``SandboxError`` if it can't be terminated.
    """
    try:
        findings, program = _start_program(launch, workspace, endpoint, model)
    except SandboxError as error:
        raise AgentError(str(error)) from error
    limit = reason = ""
    with _transcript(program, workspace.transcript, launch.on_output):
        try:
            while program.process.poll() is None and not limit and not reason and not stop.wait(LOOK_S):
                limit = program.limit_exceeded()
                reason = launch.stop_reason()
            exited = program.exited()
        finally:
            program.terminate(0.0 if limit else GRACE_S)
    if exited is None:
        return ProgramEnd({**findings, **program.findings}, None, limit, reason)
    return ProgramEnd({**findings, **program.findings}, exited.code, limit or exited.limit, reason)


def server_failure(trouble: Trouble | None, server: str) -> tuple[AgentEnd, str] | None:
    """Return the end of a turn that the last request to its model ended, and the message; None if it did not fail."""
    return (trouble.rule.end, trouble.sentence(server)) if trouble else None


def exit_message(code: int, transcript: Path) -> str:
    """Return a sentence with a program's exit code and the last line of its output."""
    with regular_file.reader(transcript) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    last = next((text for line in reversed(lines) if (text := " ".join(line.split()))), "it printed nothing")
    quoted = last if len(last) <= LAST_CHARACTERS else last[:LAST_CHARACTERS] + " …"
    return f"the program ended with exit code {code}: {quoted}"


def _start_program(
    launch: Launch, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None
) -> tuple[Mapping[str, str], RunningProgram]:
    """Start a program at its workspace's isolation; return the findings of the preflight, and the program."""
    sandbox = program_sandbox(workspace.isolation)
    program = Program(
        launch.command, workspace.directory, launch.limits, launch.home, workspace.simulators, workspace.policy_packages
    )
    endpoints: dict[int, Serve] = {JUDGE_PORT: lambda listener: endpoint.serve(listener).environment}
    if model:
        endpoints[MODEL_PORT] = lambda listener: launch.equip(model.serve(listener))
    findings = sandbox.preflight(program, [workspace.directory.parent, state_directory()])
    return findings, sandbox.start(program, endpoints)


@contextmanager
def _transcript(program: RunningProgram, transcript: Path, on_output: Callable[[bytes], None]) -> Iterator[None]:
    """Copy a program's output to its transcript until it has ended."""
    output = program.process.stdout
    if output is None:
        raise AgentError("The agent's program was started without a pipe for its output.")
    # The thread ends with the program's last process, the only holders of the pipe.
    thread = Thread(target=_copy_output, args=(output.fileno(), transcript, on_output), name="transcript", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(READ_S)
        if not thread.is_alive():
            output.close()


def _copy_output(source: int, transcript: Path, on_output: Callable[[bytes], None]) -> None:
    with TranscriptFile(transcript) as file:
        while data := os.read(source, 1 << 16):
            file.write(data)
            on_output(data)


def ask_version(command: Sequence[str], isolation: str, limits: AgentLimits = DEFAULT_LIMITS) -> str:
    """Return what a program prints in answer to a question for its version; empty where it fails.

    It is asked in a sandbox of this isolation, in an empty workspace and without a judge or a model, for at most
    ``VERSION_S`` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="evopolicygym-version-") as directory:
        workspace = Path(directory, "workspace")
        (workspace / SYSTEM).mkdir(parents=True)
        deadline = monotonic() + VERSION_S
        try:
            program = program_sandbox(isolation).start(Program(tuple(command), workspace, limits), {})
        except (SandboxError, OSError):
            return ""
        output = program.process.stdout
        try:
            text = _read_until(output.fileno(), deadline) if output else b""
            with suppress(TimeoutExpired):
                program.process.wait(max(LOOK_S, deadline - monotonic()))
            failed = program.process.poll() != 0
        finally:
            program.terminate(0.0)
            if output:
                output.close()
    return "" if failed else text.decode("utf-8", "replace")


def _read_until(descriptor: int, deadline: float) -> bytes:
    """Return what can be read until the end, a time of the monotonic clock, or ``LAST_BYTES``."""
    text = b""
    while len(text) < LAST_BYTES and select.select([descriptor], [], [], max(0.0, deadline - monotonic()))[0]:
        data = os.read(descriptor, CHUNK)
        if not data:
            break
        text += data
    return text


class TranscriptFile:
    """The output of a run's programs, up to ``OUTPUT_BYTES``."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = regular_file.appender(path)
        self._room = OUTPUT_BYTES - self._file.tell()
        """Negative once the file ends with ``CUT``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Write as much as there is room for."""
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
    """Return the workplace of a run, at its isolation, in which the judge answers; it is created when entered.

    ``command`` must be available in it. ``others`` are further servers inside, by port.

    Raises ``SandboxError`` if the isolation has no sandbox for programs.
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
    """Raise ``UsageError`` if standard input or output is not a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{what} needs a terminal on standard input and output, got a pipe or a file.")


def run_in_terminal(
    launch: Launch, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None, stop: Event
) -> ProgramEnd:
    """Run a program in the user's terminal until it ends, exceeds a limit, or ``stop`` is set.

    Raises ``AgentError`` if it can't be started, or there is no terminal.
    """
    others = {MODEL_PORT: lambda listener: launch.equip(model.serve(listener))} if model else {}
    try:
        refuse_no_terminal("The agent")
        with (
            TranscriptFile(workspace.transcript) as transcript,
            run_workplace(workspace, endpoint, launch.limits, launch.command, others) as workplace,
        ):
            code, limit, reason = attach_terminal(workplace, launch.command, stop, transcript.write, launch.stop_reason)
            return ProgramEnd(workplace.findings, code, limit, reason)
    except (UsageError, OSError) as error:
        raise AgentError(str(error)) from error


def attach_terminal(
    workplace: StandingWorkplace,
    command: tuple[str, ...],
    stop: Event,
    on_output: Callable[[bytes], object] = lambda _: None,
    stop_reason: Callable[[], str] = lambda: "",
) -> tuple[int | None, str, str]:
    """Run a command in the user's terminal; return its exit code, the limit that it exceeded, and the stop reason.

    The code is negative for a signal, and None if it was terminated. Raises ``OSError`` if it can't be started.
    """

    def show(_stream: str, data: bytes) -> None:
        os.write(sys.stdout.fileno(), data)
        on_output(data)

    limit = reason = ""
    with _raw_terminal() as keys:
        size = _terminal_size()
        running = workplace.start(command, show, terminal=size)
        while not (running.end.done() or stop.is_set() or limit or reason):
            size = _forward_input(running, keys, size)
            limit, reason = workplace.limit_exceeded(), stop_reason()
        with suppress(WorkplaceLost):
            running.kill()
        if stop.is_set():
            os.write(sys.stdout.fileno(), RUN_OVER)
    if not running.end.done():
        return None, limit, reason
    try:
        code = running.wait(0)
    except WorkplaceLost:
        exited = workplace.exited()
        return (exited.code, limit or exited.limit, reason) if exited else (None, limit, reason)
    return -running.signal or code, limit, reason


def _forward_input(running: RunningCommand, keys: int, size: Terminal) -> Terminal:
    """Forward keys and the terminal's size, which is returned."""
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
    """Put the terminal into raw mode for the block."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setraw(keys)
    try:
        yield keys
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
