"""Agents that run outside of this program: they call the judge by its address, or run commands in a run's sandbox.

An outside agent is not sandboxed, and its use of models is not counted. A hosted agent runs its commands in the sandbox
for agent programs, while its driver, such as Inspect AI, is elsewhere. Policies always play in their own sandbox.
``RelayedJudge`` makes a judge that another process serves available here.
"""

import os
import shlex
import socket
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Condition, Event, Thread
from time import monotonic
from urllib.parse import urlsplit

from evopolicygym.agents.kit.program import DEFAULT_LIMITS, run_workplace, sandbox_killed
from evopolicygym.core import regular_file
from evopolicygym.core.agent import (
    OUTSIDE,
    AgentEnd,
    AgentLimits,
    JudgeEndpoint,
    Turn,
    Workspace,
)
from evopolicygym.core.beneath import open_directory, write_file
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.judge_client.address import ADDRESS_FILE, JudgeAddress, address_in, read_variables
from evopolicygym.judge_client.workspace_files import remove
from evopolicygym.sandbox.program.standing import StandingWorkplace

OWNER_ALONE = 0o600
MAX_ADDRESS_FILE = 1 << 14
NO_PROXY = ("NO_PROXY", "no_proxy")
"""Variables that name hosts for which programs ask no proxy."""
BACKLOG = 128
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
FINDINGS: Mapping[str, str] = {OUTSIDE: "neither started nor sandboxed here; its use of models is not counted"}
"""The recorded findings of an outside agent's turn."""
LOOK_S = 0.05
RESTARTS = 10
"""How often a workplace that its commands terminated is created again."""
WORKPLACE_S = 120.0
"""Seconds within which a workplace must be created."""
DRIVER_LEFT = "the agent's driver left"
CHUNK = 1 << 16
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class OpenAccess:
    """Listening sockets for outside agents, in addition to loopback."""

    tcp: socket.socket | None = None
    unix: socket.socket | None = None
    hosts: frozenset[str] = frozenset()
    """Accepted values of the host header."""
    host: str = ""
    """The host in the published address of ``tcp``."""

    def serve(self, endpoint: JudgeEndpoint) -> JudgeAddress:
        """Serve the judge on the sockets; return the address for the agent."""
        address = endpoint.address
        if self.tcp:
            path = endpoint.serve(self.tcp, self.hosts).path
            address = JudgeAddress(f"http://{self.host}:{self.tcp.getsockname()[1]}{path}")
        if self.unix:
            address = replace(endpoint.serve(self.unix), socket_path=str(self.unix.getsockname()))
        return address


@dataclass(frozen=True, slots=True)
class OutsideAccess:
    """Options for serving the judge to outside agents, in addition to loopback."""

    listen: str = ""
    """``HOST:PORT``: a name or an address of this machine, and a port; 0 for any free one."""
    socket: Path | None = None
    """The path of a Unix socket to create, accessible to its owner only."""
    allow_hosts: Collection[str] = ()
    """Further accepted values of the host header, besides the host in ``listen``."""

    @contextmanager
    def open(self) -> Iterator[OpenAccess]:
        """Yield the listening sockets and close them at the end; raise ``UsageError`` if one can't be created."""
        access = OpenAccess()
        try:
            if self.listen:
                host, port = _host_and_port(self.listen)
                names = frozenset({*self.allow_hosts, host} - WILDCARDS)
                published = host if host not in WILDCARDS else next(iter(sorted(self.allow_hosts)), "localhost")
                access = replace(access, tcp=_tcp_listener(host, port), hosts=names, host=published)
            if self.socket:
                access = replace(access, unix=_unix_listener(self.socket.absolute()))
            yield access
        finally:
            for listener in filter(None, (access.tcp, access.unix)):
                listener.close()
            if access.unix and self.socket:
                with suppress(OSError):
                    self.socket.unlink()


Announce = Callable[[JudgeAddress, Workspace], object]
"""Called once the judge is served, with its address and the workspace."""


class OutsideAgent:
    """Waits while an outside agent plays."""

    max_turns = 1

    def __init__(self, access: OpenAccess, announce: Announce) -> None:
        self._access, self._announce = access, announce

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Serve the judge until ``stop`` is set."""
        address = self._access.serve(endpoint)
        with _published(workspace, address.environment):
            self._announce(address, workspace)
            stop.wait()
        return Turn(AgentEnd.STOPPED, findings=FINDINGS)


def read_address_file(file: Path) -> dict[str, str]:
    """Return the variables in an address file, which no agent may write; empty if there is none."""
    try:
        return read_variables(regular_file.read(file, MAX_ADDRESS_FILE))
    except FileNotFoundError:
        return {}


def find_judge(file: Path) -> "RelayedJudge | None":
    """Return the judge whose address a file holds; None if there is none, or it accepts no connection."""
    address = address_in(read_address_file(file))
    try:
        if address is not None:
            address.connect(CONNECT_S).close()
    except OSError:
        return None
    return RelayedJudge(address) if address is not None else None


def no_proxy(variables: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that keep programs of an environment from asking a proxy for the judge."""
    host = _host_of(variables)
    return {name: ",".join(filter(None, (environment.get(name), host))) for name in NO_PROXY}


def _host_of(variables: Mapping[str, str]) -> str:
    """Return the host in the first of some variables that is a URL."""
    return next((host for value in variables.values() if (host := urlsplit(value).hostname)), "")


def _host_and_port(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise UsageError(f"Invalid --listen: expected HOST:PORT, such as 127.0.0.1:8000, got {listen!r}.")
    return host, int(port)


def _tcp_listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise UsageError(f"The judge can't listen on {host}:{port}: {_why(error)}.") from error


def _unix_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode) and not _is_listening(path):  # left behind by a killed run
                path.unlink()
        listener.bind(str(path))
        path.chmod(OWNER_ALONE)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(f"The judge can't listen at the socket {path}: {_why(error)}.") from error
    return listener


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return client.connect_ex(str(path)) == 0


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


@contextmanager
def _published(workspace: Workspace, variables: Mapping[str, str]) -> Iterator[None]:
    """Have the address files of a run contain the variables, and remove them at the end.

    The one in the workspace is for the agent's programs. If it can't be written, the run goes on without it.
    """
    with open_directory(workspace.addresses.parent) as logs, suppress(OSError):
        write_address_file(ADDRESS_FILE, variables, logs)
    with suppress(OSError), open_directory(workspace.directory) as at:
        write_address_file(ADDRESS_FILE, variables, at)
    try:
        yield
    finally:
        for directory in (workspace.addresses.parent, workspace.directory):
            with suppress(OSError), open_directory(directory) as at:
                remove(ADDRESS_FILE, at)


def write_address_file(name: str, variables: Mapping[str, str], at: int) -> None:
    """Write variables into a file that a shell can source and that only its owner can read.

    ``at`` is the descriptor of its directory. The shell's programs then ask no proxy for the address.
    """
    host = _host_of(variables)
    lines = [f"export {variable}={shlex.quote(value)}\n" for variable, value in variables.items()]
    lines += [f'export {variable}="${{{variable}:+${variable},}}{host}"\n' for variable in NO_PROXY]
    write_file(name, "".join(lines).encode(), at, OWNER_ALONE)


class TurnOver(EvoPolicyGymError):
    """The agent's turn is over; no further command is executed."""


class HostedAgent:
    """Keeps a workplace open during its turn."""

    max_turns = 1
    starts_program = True

    def __init__(self, findings: Mapping[str, str], tool_usage: Callable[[], Mapping[str, float]] = dict) -> None:
        """Record ``findings`` about the agent's driver, and the ``tool_usage`` that the driver reports at the end."""
        self.opened: Future[Workspace] = Future()
        """The run's workspace, once the workplace is open."""
        self._findings, self._tool_usage = dict(findings), tool_usage
        self._limits: AgentLimits = DEFAULT_LIMITS
        self._workplace: StandingWorkplace | None = None
        self._changed, self._left = Condition(), Event()
        self._turn: Turn | None = None

    def workplace(self) -> StandingWorkplace:
        """Return the workplace, created again if its commands terminated it; raise ``TurnOver`` after the turn."""
        deadline = monotonic() + WORKPLACE_S
        with self._changed:
            while self._turn is None and (self._workplace is None or self._workplace.lost):
                if not self._changed.wait(deadline - monotonic()):
                    raise TurnOver("no workplace could be created in time")
            if self._turn is not None or self._workplace is None:
                raise TurnOver(self._turn.message if self._turn else DRIVER_LEFT)
            return self._workplace

    def leave(self, end: AgentEnd = AgentEnd.FINISHED, message: str = "") -> None:
        """End the turn with an end and a message to record; does nothing if it is over."""
        self._end_turn(Turn(end, message))
        self._left.set()

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Keep the workplace open until ``leave`` is called, ``stop`` is set, or its commands exceed a limit."""
        try:
            for _ in range(1 + RESTARTS):
                with run_workplace(workspace, endpoint, self._limits) as workplace:
                    self._findings = {**workplace.findings, **self._findings}
                    self._publish(workspace, workplace)
                    self._wait(workplace, stop)
                    if killed := sandbox_killed(workplace.exited() if workplace.lost else None):
                        self._end_turn(Turn(AgentEnd.KILLED, killed))
                if self._turn is not None:
                    break
            self._end_turn(
                Turn(AgentEnd.CRASHED, f"the agent's commands terminated their sandbox {1 + RESTARTS} times")
            )
        except BaseException as error:
            self._end_turn(Turn(AgentEnd.CRASHED, str(error)))
            raise
        turn = self._turn or Turn(AgentEnd.CRASHED)
        return replace(turn, findings=self._findings, tool_usage=self._tool_usage())

    def _publish(self, workspace: Workspace, workplace: StandingWorkplace) -> None:
        with self._changed:
            self._workplace = workplace
            self._changed.notify_all()
        if not self.opened.done():
            self.opened.set_result(workspace)

    def _wait(self, workplace: StandingWorkplace, stop: Event) -> None:
        """Wait until the turn or the workplace ends."""
        while not self._left.wait(LOOK_S) and not workplace.lost:
            if stop.is_set():
                self._end_turn(Turn(AgentEnd.STOPPED, "the run accepts no more submissions"))
                return
            if limit := workplace.limit_exceeded():
                self._end_turn(Turn(AgentEnd.CRASHED, f"the agent's commands were terminated: {limit}"))
                return

    def _end_turn(self, turn: Turn) -> None:
        with self._changed:
            self._turn = self._turn or turn
            self._changed.notify_all()


class RelayedJudge:
    """The endpoint of a run that another process serves."""

    def __init__(self, address: JudgeAddress) -> None:
        self.address = address

    def serve(self, listener: socket.socket, hosts: Collection[str] = ()) -> JudgeAddress:  # noqa: ARG002 - the contract's
        """Relay connections to a listening socket until it is closed; return the judge's address there."""
        Thread(target=self._accept, args=(listener,), name="relay", daemon=True).start()
        host, port = listener.getsockname()[:2]
        return JudgeAddress(f"http://{host}:{port}{self.address.path}")

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    judge = self.address.connect(CONNECT_S)
                    judge.settimeout(None)
                except OSError:
                    client.close()
                    continue
                Thread(target=_relay, args=(client, judge), name="relay", daemon=True).start()


def _relay(client: socket.socket, judge: socket.socket) -> None:
    """Copy data in both directions until both have ended, and close the connections."""
    with client, judge:
        answers = Thread(target=_copy_stream, args=(judge, client), name="relay", daemon=True)
        answers.start()
        _copy_stream(client, judge)
        answers.join()


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    """Copy data until either side ends, then shut this direction down on both."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for connection, direction in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            connection.shutdown(direction)
