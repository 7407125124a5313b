"""Agents that nobody here starts: whoever asks the judge with its token, or has commands run in a run's sandbox.

An outside agent is not sandboxed: what it may read, what it runs and whom it asks is not known here. A hosted agent's
commands run in the sandbox of any program; whoever drives it is elsewhere. Policies play in their sandbox as ever.
``RelayedJudge`` is a judge that another process serves, as an endpoint here.
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

from evopolicygym.agents.kit.program import DEFAULT_LIMITS, run_workplace
from evopolicygym.core.agent import (
    OUTSIDE,
    AgentConfig,
    AgentEnd,
    AgentLimits,
    JudgeAddress,
    JudgeEndpoint,
    Turn,
    Workspace,
)
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.sandbox.program.standing import StandingWorkplace

ADDRESS_FILE = "judge.env"
"""Lies in the workspace while the judge answers; a shell reads it by ``source``, and ``./judge`` by itself."""
OWNER_ALONE = 0o600
SOCKET = "EVOPOLICYGYM_SOCKET"
"""The variable that holds the path of the Unix socket at which the judge answers, where there is one."""
BACKLOG = 128
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - to tell them from names
FINDINGS: Mapping[str, str] = {OUTSIDE: "neither started nor kept in here; its use of models is not counted"}
"""What the record says of such a turn."""
LOOK_S = 0.05
RESTARTS = 10
"""How often a workplace is made anew whose commands ended it."""
WORKPLACE_S = 120.0
"""Seconds within which a workplace must have been made."""
DRIVER_LEFT = "whoever drove the agent left"
CHUNK = 1 << 16
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class OpenAccess:
    """Where an agent from outside reaches the judge, besides this machine's loopback: sockets that listen."""

    tcp: socket.socket | None = None
    unix: socket.socket | None = None
    hosts: frozenset[str] = frozenset()
    """Names by which requests may call this machine."""
    called: str = ""
    """The one that stands in the address of ``tcp``."""

    def serve(self, endpoint: JudgeEndpoint) -> dict[str, str]:
        """Have the judge answer there; return the variables by which an agent finds it."""
        address, path = endpoint.address, {}
        if self.tcp:
            at = endpoint.serve(self.tcp, self.hosts).base_url
            port = self.tcp.getsockname()[1]
            address = JudgeAddress(f"http://{self.called}:{port}/{at.rpartition('/')[2]}")
        if self.unix:
            address, path = endpoint.serve(self.unix), {SOCKET: str(self.unix.getsockname())}
        return {**address.environment, **path}


@dataclass(frozen=True, slots=True)
class OutsideAccess:
    """Where an agent from outside can reach the judge, besides this machine's loopback."""

    listen: str = ""
    """``HOST:PORT``: a name or an address of this machine, and a port; 0 for any that is free."""
    socket: Path | None = None
    """Where a Unix socket is made, which is its owner's alone."""
    allow_hosts: Collection[str] = ()
    """Names by which requests may call this machine, besides the one that is listened on."""

    @contextmanager
    def opened(self) -> Iterator[OpenAccess]:
        """Yield the sockets, which are closed in the end; raise ``UsageError`` where nothing can listen there."""
        access = OpenAccess()
        try:
            if self.listen:
                host, port = _host_and_port(self.listen)
                names = frozenset({*self.allow_hosts, host} - WILDCARDS)
                called = host if host not in WILDCARDS else next(iter(sorted(self.allow_hosts)), "localhost")
                access = replace(access, tcp=_tcp_listener(host, port), hosts=names, called=called)
            if self.socket:
                access = replace(access, unix=_unix_listener(self.socket.absolute()))
            yield access
        finally:
            for listener in filter(None, (access.tcp, access.unix)):
                listener.close()
            if access.unix and self.socket:
                with suppress(OSError):
                    self.socket.unlink()


Announce = Callable[[Mapping[str, str], Path], object]
"""Called with the variables by which the judge is found, and the file that holds them, once it answers."""


class OutsideAgent:
    """Waits while somebody else plays."""

    max_turns = 1

    def __init__(self, access: OpenAccess, announce: Announce) -> None:
        self._access, self._announce = access, announce

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Have the judge answer where it was asked to, until ``stop`` is set."""
        variables = self._access.serve(endpoint)
        with _address_file(workspace.directory / ADDRESS_FILE, variables) as file:
            self._announce(variables, file)
            stop.wait()
        return Turn(AgentEnd.STOPPED, findings=FINDINGS)


def read_addresses(workspace: Path) -> dict[str, str]:
    """Return the variables by which the judge of a served run is found; none where it is not served."""
    try:
        words = shlex.split((workspace / ADDRESS_FILE).read_text(encoding="utf-8"), comments=True)
    except FileNotFoundError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def not_served(config: AgentConfig) -> UsageError:
    """Return what is said where such an agent is named and nothing is served."""
    return UsageError(
        f"The agent {config.entry} asks the judge from outside: evopolicygym serve TASK serves a run for it, and "
        f"evopolicygym serve --resume RUN one that stopped."
    )


def _host_and_port(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise UsageError(f"--listen expects HOST:PORT, such as 127.0.0.1:8000, got {listen!r}.")
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
            if stat.S_ISSOCK(path.lstat().st_mode) and not _is_listening(path):  # left by a run that was killed
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
def _address_file(file: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """Have the variables in a file that its owner alone can read; it is removed in the end."""
    with suppress(FileNotFoundError):
        file.unlink()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ALONE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as lines:
        lines.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    try:
        yield file
    finally:
        with suppress(OSError):
            file.unlink()


class TurnOver(EvoPolicyGymError):
    """The agent's turn is over, and no command is executed any more."""


class HostedAgent:
    """Holds a workplace open for as long as its turn lasts."""

    max_turns = 1
    starts_program = True

    def __init__(self, findings: Mapping[str, str], used: Callable[[], Mapping[str, float]] = dict) -> None:
        """Record ``findings`` on who drives the agent, and in the end what that ``used`` of models, as it counts."""
        self.opened: Future[Workspace] = Future()
        """Where the run is played, once the workplace is made."""
        self._findings, self._used = dict(findings), used
        self._limits: AgentLimits = DEFAULT_LIMITS
        self._workplace: StandingWorkplace | None = None
        self._changed, self._left = Condition(), Event()
        self._turn: Turn | None = None

    def workplace(self) -> StandingWorkplace:
        """Return the workplace, which is made anew where its commands ended it; raise ``TurnOver`` after the turn."""
        deadline = monotonic() + WORKPLACE_S
        with self._changed:
            while self._turn is None and (self._workplace is None or self._workplace.lost):
                if not self._changed.wait(deadline - monotonic()):
                    raise TurnOver("no workplace could be made in time")
            if self._turn is not None or self._workplace is None:
                raise TurnOver(self._turn.message if self._turn else DRIVER_LEFT)
            return self._workplace

    def leave(self, end: AgentEnd = AgentEnd.FINISHED, message: str = "") -> None:
        """End the turn, as it is to be recorded; nothing where it is over."""
        self._over(Turn(end, message))
        self._left.set()

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Hold the workplace open until the turn is left, ``stop`` is set, or its commands pass a limit."""
        try:
            for _ in range(1 + RESTARTS):
                with run_workplace(workspace, endpoint, self._limits) as workplace:
                    self._findings = {**workplace.findings, **self._findings}
                    self._hand_out(workspace, workplace)
                    self._wait(workplace, stop)
                if self._turn is not None:
                    break
            self._over(Turn(AgentEnd.CRASHED, f"the agent's commands ended their sandbox {1 + RESTARTS} times"))
        except BaseException as error:
            self._over(Turn(AgentEnd.CRASHED, str(error)))
            raise
        turn = self._turn or Turn(AgentEnd.CRASHED)
        return replace(turn, findings=self._findings, tool_usage=self._used())

    def _hand_out(self, workspace: Workspace, workplace: StandingWorkplace) -> None:
        with self._changed:
            self._workplace = workplace
            self._changed.notify_all()
        if not self.opened.done():
            self.opened.set_result(workspace)

    def _wait(self, workplace: StandingWorkplace, stop: Event) -> None:
        """Wait until there is a reason to leave the workplace; where the turn is over, that is known then."""
        while not self._left.wait(LOOK_S) and not workplace.lost:
            if stop.is_set():
                self._over(Turn(AgentEnd.STOPPED, "the run takes no more submissions"))
                return
            if limit := workplace.limit_exceeded():
                self._over(Turn(AgentEnd.CRASHED, f"the agent's commands were ended: {limit}"))
                return

    def _over(self, turn: Turn) -> None:
        with self._changed:
            self._turn = self._turn or turn
            self._changed.notify_all()


class RelayedJudge:
    """The endpoint of a served run, by the variables that its ``judge.env`` holds."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.address = JudgeAddress(variables["EVOPOLICYGYM_INFO_URL"].removesuffix("/info"))
        """Where it answers."""
        self._path = variables.get(SOCKET, "")

    def answers(self) -> bool:
        """Return whether anybody listens there."""
        try:
            self._connected().close()
        except OSError:
            return False
        return True

    def serve(self, listener: socket.socket, hosts: Collection[str] = ()) -> JudgeAddress:  # noqa: ARG002 - the contract's
        """Pass on what connects to a listening socket until that is closed; return where the judge is found there."""
        Thread(target=self._accept, args=(listener,), name="relay", daemon=True).start()
        host, port = listener.getsockname()[:2]
        return JudgeAddress(f"http://{host}:{port}{urlsplit(self.address.base_url).path}")

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    judge = self._connected()
                except OSError:
                    client.close()
                    continue
                for source, target in ((client, judge), (judge, client)):
                    Thread(target=_copy_stream, args=(source, target), name="relay", daemon=True).start()

    def _connected(self) -> socket.socket:
        if self._path:
            judge = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            judge.connect(self._path)
            return judge
        at = urlsplit(self.address.base_url)
        judge = socket.create_connection((at.hostname or "127.0.0.1", at.port or 80), CONNECT_S)
        judge.settimeout(None)
        return judge


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    """Pass on until one side ends, and have the other one see that."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            end.shutdown(how)
