"""What tests of the viewer look at: the run whose numbers are known by hand, real runs, and a site over HTTP."""

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from diagnosed import known_run, recorded
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.serving import ServedViewer
from evopolicygym.viewer.shelf import Place, Shelf
from whole_runs import config, played

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\x1b[31m\u202e"
"""What a page must show and never do."""


def known(below: Path) -> tuple[Place, RunRecord]:
    """Write the run that is known by hand below a directory; return where a shelf finds it, and its record."""
    record = recorded(below / "known", known_run())
    (place,) = Shelf([below]).places().values()
    return place, record


def real_runs(below: Path) -> tuple[RunPaths, RunPaths]:
    """Play two small runs on cartpole: one that edits by a plan, one of random actions."""
    return played(config(below, agent="players:make_evolver")).paths, played(config(below, agent="random")).paths


@dataclass(frozen=True, slots=True)
class Answer:
    """What the site answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


def asked(viewer: ServedViewer, path: str, method: str = "GET", **headers: str) -> Answer:
    """Ask the site for a path as it is written, dots and all."""
    connection = http.client.HTTPConnection(urlsplit(viewer.address).netloc, timeout=30)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read())
    finally:
        connection.close()
