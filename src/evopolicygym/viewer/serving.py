"""Serving the site in a thread of its own, until it is closed."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import uvicorn

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.viewer.bundle_suite import settings_bundle, suite_name
from evopolicygym.viewer.library import Library
from evopolicygym.viewer.shelf import Shelf
from evopolicygym.viewer.site import application, listener

START_S = 20.0


class ServedViewer:
    """The site of some runs, on this machine's loopback."""

    def __init__(self, runs: Sequence[Path], port: int = 0, shipped: Sequence[str] = ()) -> None:
        """Begin to serve, the tables of these names beside the runs; the address is known when this returns."""
        settings = settings_bundle(shipped)
        self.library = Library(Shelf(runs))
        self._listener = listener(port)
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(
            application(self.library, settings), ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, name="viewer", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + START_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        if not self._server.started:
            raise EvoPolicyGymError("The viewer's server didn't start.")
        first = suite_name(settings["beside"])
        threading.Thread(target=self._warm, args=(first,), name="viewer's leaderboard", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Serve until the thread ends, which is when the program is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Answer no more."""
        self._server.should_exit = True
        self._thread.join(START_S)
        self._listener.close()

    def _warm(self, first: str) -> None:
        """Have the list of runs and the leaderboard ready before they are asked for."""
        with suppress(EvoPolicyGymError, OSError):
            self.library.document("runs")
            self.library.document(first)
