"""A judge's address: its variables, the file that holds them, and a connection to it."""

import http.client
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

INFO_URL, TASK_URL, SUBMIT_URL = "EVOPOLICYGYM_INFO_URL", "EVOPOLICYGYM_TASK_URL", "EVOPOLICYGYM_SUBMIT_URL"
SOCKET = "EVOPOLICYGYM_SOCKET"
"""The variable with the path of the judge's Unix socket, if there is one."""
ADDRESS_FILE = "judge.env"
"""The file with the variables, for an agent from outside, which has none in its environment."""
PREFIX = "EVOPOLICYGYM_"
MAX_SHOWN = 200
"""Characters of an invalid address that a message shows."""


class InvalidAddress(ValueError):
    """Variables that hold no address of a judge."""


@dataclass(frozen=True)
class JudgeAddress:
    """Where a judge answers."""

    base_url: str
    """Contains the run's token; has no trailing slash."""
    socket_path: str = ""
    """The path of a Unix socket through which it is reached; empty for TCP."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that tell a program the address."""
        calls = {INFO_URL: "info", TASK_URL: "task", SUBMIT_URL: "submit"}
        through = {SOCKET: self.socket_path} if self.socket_path else {}
        return {**{name: f"{self.base_url}/{call}" for name, call in calls.items()}, **through}

    @property
    def path(self) -> str:
        """The path of the base URL."""
        return urlsplit(self.base_url).path

    def connect(self, timeout_s: float) -> socket.socket:
        """Return a connection; raise ``OSError``, or ``InvalidAddress`` for what is not the address of a judge."""
        if self.socket_path:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(timeout_s)
                connection.connect(self.socket_path)
            except BaseException:
                connection.close()
                raise
            return connection
        connection = socket.create_connection(self._host_and_port(), timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def http(self, timeout_s: float) -> http.client.HTTPConnection:
        """Return a connection for requests, which asks no proxy and follows no redirect."""
        connection = http.client.HTTPConnection(*self._host_and_port(), timeout=timeout_s)
        connection.connect = lambda: setattr(connection, "sock", self.connect(timeout_s))  # type: ignore[method-assign]
        return connection

    def _host_and_port(self) -> tuple[str, int]:
        try:
            parts = urlsplit(self.base_url)
            host, port = parts.hostname, parts.port or 80
            (host or "").encode("idna")
            valid = parts.scheme == "http" and host and "\0" not in self.socket_path and self.base_url.isascii()
        except ValueError:
            host, port, valid = "", 0, ""
        if not valid or not host:
            got = self.base_url[:MAX_SHOWN]
            raise InvalidAddress(f"Invalid {INFO_URL}: expected http://HOST:PORT/TOKEN/info, got {got!r}.")
        return host, port


def address_in(variables: Mapping[str, str]) -> "JudgeAddress | None":
    """Return the address that variables hold; None if they hold none."""
    url = variables.get(INFO_URL, "")
    return JudgeAddress(url.removesuffix("/info"), variables.get(SOCKET, "")) if url else None


def read_variables(content: bytes) -> dict[str, str]:
    """Return the variables of ours that a file for shells exports; raise ``ValueError`` if it is not one."""
    words = shlex.split(content.decode("utf-8"), comments=True)
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    return {name: value for name, value in variables.items() if name.startswith(PREFIX)}
