"""Serving the site until it is closed."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.serving.server import Server
from evopolicygym.viewer.library import Library
from evopolicygym.viewer.shelf import Shelf
from evopolicygym.viewer.site import application, listener


class ServedViewer:
    """The site of some runs, on this machine's loopback."""

    def __init__(self, runs: Sequence[Path], port: int = 0, *, with_paper: bool = False) -> None:
        """Begin to serve; the address is known when this returns."""
        self.library = Library(Shelf(runs))
        taken, settings = listener(port), {"paper": with_paper}
        self._server = Server(application(self.library, settings), "viewer")
        self.address = self._server.serve(taken)
        first = "suite-paper" if with_paper else "suite"
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
            self.library.document("runs")
            self.library.document(first)
