"""A program of an agent's in the user's terminal: it works where any program of an agent's does, and a person is at it.

What it prints is kept in the transcript too. How commands are executed there is described in
``sandbox/program/standing.py``.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event

from evopolicygym.agents.kit.program import Launch, ProgramEnd, TranscriptFile
from evopolicygym.agents.kit.run_workplace import run_workplace
from evopolicygym.core.agent import JudgeEndpoint, Workspace
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.sandbox.base import MODEL_PORT
from evopolicygym.sandbox.program.standing import RunningCommand, StandingWorkplace, Terminal, WorkplaceLost

LOOK_S = 0.05
CHUNK = 1 << 14
OVER = b"\r\nThe run takes no more submissions; its best checkpoint is scored now.\r\n"


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
            code, limit, over = attach(workplace, launch.command, stop, transcript.hear, launch.over)
            return ProgramEnd(workplace.findings, code, limit, over)
    except (UsageError, OSError) as error:
        raise AgentError(str(error)) from error


def attach(
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
        size = _size()
        running = workplace.start(command, show, terminal=size)
        while not (running.end.done() or stop.is_set() or limit or over):
            size = _pass_on(running, keys, size)
            limit, over = workplace.limit_exceeded(), spent()
        with suppress(WorkplaceLost):
            running.kill()
        if stop.is_set():
            os.write(sys.stdout.fileno(), OVER)
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
        if (now := _size()) != size:
            running.resize(now)
            return now
    return size


def _size() -> Terminal:
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
