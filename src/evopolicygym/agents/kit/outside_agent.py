"""An agent from outside: nobody starts it. The judge listens, and says where; whoever asks with the token is the agent.

It is not kept in: what it may read, what it runs and whom it asks is not known here. Policies are kept in as ever.
"""

import os
import shlex
import socket
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from evopolicygym.core.agent import OUTSIDE, AgentConfig, AgentEnd, JudgeAddress, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError

ADDRESS_FILE = "judge.env"
"""Lies in the workspace while the judge answers; a shell reads it by ``source``, and ``./judge`` by itself."""
OWNER_ALONE = 0o600
SOCKET = "EVOPOLICYGYM_SOCKET"
"""The variable that holds the path of the Unix socket at which the judge answers, where there is one."""
BACKLOG = 128
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - to tell them from names
FINDINGS: Mapping[str, str] = {OUTSIDE: "neither started nor kept in here; its use of models is not counted"}
"""What the record says of such a turn."""


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
        with _written(workspace.directory / ADDRESS_FILE, variables) as file:
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


def refuse_unserved(config: AgentConfig) -> UsageError:
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
            if stat.S_ISSOCK(path.lstat().st_mode) and not _answers(path):  # left by a run that was killed
                path.unlink()
        listener.bind(str(path))
        path.chmod(OWNER_ALONE)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(f"The judge can't listen at the socket {path}: {_why(error)}.") from error
    return listener


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return client.connect_ex(str(path)) == 0


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


@contextmanager
def _written(file: Path, variables: Mapping[str, str]) -> Iterator[Path]:
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
