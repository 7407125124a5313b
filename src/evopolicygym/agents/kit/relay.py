"""A judge that another process serves, as an endpoint here: connections are passed on to it, byte by byte."""

import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from threading import Thread
from urllib.parse import urlsplit

from evopolicygym.agents.kit.outside_agent import SOCKET
from evopolicygym.core.agent import JudgeAddress

CHUNK = 1 << 16
CONNECT_S = 5.0


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
                    Thread(target=_pump, args=(source, target), name="relay", daemon=True).start()

    def _connected(self) -> socket.socket:
        if self._path:
            judge = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            judge.connect(self._path)
            return judge
        at = urlsplit(self.address.base_url)
        judge = socket.create_connection((at.hostname or "127.0.0.1", at.port or 80), CONNECT_S)
        judge.settimeout(None)
        return judge


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on until one side ends, and have the other one see that."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            end.shutdown(how)
