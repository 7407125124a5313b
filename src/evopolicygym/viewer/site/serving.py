"""Serving the site until it is closed."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.serving.http_server import Server
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.documents.suite import settings_bundle, suite_name
from evopolicygym.viewer.site.access import Access
from evopolicygym.viewer.site.app import application, open_socket


class ServedViewer:
    """The site of runs, served on loopback."""

    def __init__(self, runs: Sequence[Path], port: int = 0, shipped: Sequence[str] = ()) -> None:
        """Start to serve runs with these shipped tables; the address is known on return."""
        self.documents = Documents(RunIndex(runs))
        settings = {**settings_bundle(shipped), "paths": self.documents.index.words()}
        listening_socket = open_socket(port)
        self.access = Access()
        self._server = Server(application(self.documents, self.access, settings), "viewer")
        self.address = self._server.serve(listening_socket)
        """The address of the pages, which need the token."""
        self.entrance = f"{self.address}/?token={self.access.token}"
        """The address that gives a browser the token."""
        first = suite_name(settings["tables"])
        threading.Thread(target=self._warm, args=(first,), name="viewer's leaderboard", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Serve until the program is interrupted."""
        self._server.wait()

    def close(self) -> None:
        """Stop serving."""
        self._server.close()

    def _warm(self, first: str) -> None:
        """Build the list of runs and the leaderboard before the first request."""
        with suppress(EvoPolicyGymError, OSError):
            self.documents.document("runs")
            self.documents.document(first)
