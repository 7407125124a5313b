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
from evopolicygym.viewer.site.app import application, listener


class ServedViewer:
    """The site of some runs, on this machine's loopback."""

    def __init__(self, runs: Sequence[Path], port: int = 0, shipped: Sequence[str] = ()) -> None:
        """Begin to serve, the tables of these names beside the runs; the address is known when this returns."""
        settings = settings_bundle(shipped)
        self.documents = Documents(RunIndex(runs))
        taken = listener(port)
        self.access = Access()
        self._server = Server(application(self.documents, self.access, settings), "viewer")
        self.address = self._server.serve(taken)
        """Where pages are shown to who has the token."""
        self.entrance = f"{self.address}/?token={self.access.token}"
        """Where a browser gets the token."""
        first = suite_name(settings["beside"])
        threading.Thread(target=self._warm, args=(first,), name="viewer's leaderboard", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Serve until the thread ends, which is when the program is interrupted."""
        self._server.wait()

    def close(self) -> None:
        """Answer no more."""
        self._server.close()

    def _warm(self, first: str) -> None:
        """Have the list of runs and the leaderboard ready before they are asked for."""
        with suppress(EvoPolicyGymError, OSError):
            self.documents.document("runs")
            self.documents.document(first)
