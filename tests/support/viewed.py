"""What tests of the viewer look at: the run whose numbers are known by hand, real runs, and a site over HTTP."""

import base64
import gzip
import html
import http.client
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from diagnosed import BUNDLES, known_run, recorded
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split
from evopolicygym.core.event import RunOpened
from evopolicygym.records.paths import RunPaths, film_name
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.rows import RunRow
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunDirectory, RunIndex, ViewedRun
from evopolicygym.viewer.site.serving import ServedViewer
from whole_runs import config, played

PATIENCE_S = 120
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\x1b[31m\u202e"
"""What a page must show and never do."""


def known(below: Path) -> tuple[RunDirectory, RunRecord]:
    """Write the run that is known by hand below a directory; return where a shelf finds it, and its record."""
    record = recorded(below / "known", known_run())
    (place,) = RunIndex([below]).directories().values()
    return place, record


def viewed(row: RunRow) -> ViewedRun:
    """Return a finished run of a row as pages show it, its name being that of its directory."""
    return ViewedRun(RunDirectory(row.root.name, row.root, row.root.name), row, None, is_played=False, is_finished=True)


def documents(below: Path) -> Callable[[str], Any]:
    """Return what gives the viewer's documents of the runs at or below a directory, by name."""
    made = Documents(RunIndex([below]))
    return lambda name: json.loads(made.document(name))


def real_runs(below: Path) -> tuple[RunPaths, RunPaths]:
    """Play two small runs on cartpole: one that edits by a plan, one of random actions."""
    return played(config(below, agent="players:make_evolver")).paths, played(config(below, agent="random")).paths


def write_film(paths: RunPaths) -> None:
    """Write a film of ten grey pictures where that of the first held-out episode lies."""
    av = pytest.importorskip("av", reason="av is not installed, which the extra viewer brings")
    selected = read_run(paths.root).state.selected
    assert selected is not None
    film = paths.films / film_name(Split.HELD_OUT, selected.submit_index, selected.checkpoint, 0)
    film.parent.mkdir(parents=True)
    with av.open(film, "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for shade in range(10):
            picture = np.full((64, 64, 3), 25 * shade, dtype="uint8")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


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
    """Ask the site for a path as it is written, dots and all, with its token where no other is given."""
    headers = {"Authorization": f"Bearer {viewer.access.token}", **headers}
    connection = http.client.HTTPConnection(urlsplit(viewer.address).netloc, timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read())
    finally:
        connection.close()


def hostile_run(place: Path) -> RunRecord:
    """Write the known run with markup in its agent's name, a file and its name, an output, a summary, a transcript."""
    opened, *events = known_run()
    assert isinstance(opened, RunOpened)
    files = {**BUNDLES, "b": {f"x{HOSTILE.replace('/', '')}.py": HOSTILE, "policy.py": HOSTILE}}
    record = recorded(place, [replace(opened, agent=AgentConfig("command", HOSTILE)), *events], files)
    lines = f"{HOSTILE}\n" + json.dumps({"role": HOSTILE, "text": HOSTILE})
    published = record.paths.published_feedback(1)
    for path, text in (
        (record.paths.transcript, lines),
        (published / "episodes" / "ep_002" / "stdout.txt", HOSTILE),
        (published / "summary.json", json.dumps({"__proto__": HOSTILE, HOSTILE: 1})),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return record


def kept_documents(directory: Path) -> dict[str, Any]:
    """Return the documents of static pages in a directory, by name."""
    scripts = (path.read_text(encoding="utf-8") for path in sorted((directory / "data").rglob("*.js")))
    return dict(
        _unpacked(*json.loads(f"[{script[len('evopolicygymDocument(') : -len(');') - 1]}]")) for script in scripts
    )


def documents_within(file: Path) -> dict[str, Any]:
    """Return the documents of static pages in one file, by name."""
    found = re.findall(
        r'<script type="text/plain" id="kept/([^"]*)">([^<]*)</script>', file.read_text(encoding="utf-8")
    )
    return dict(_unpacked(html.unescape(name), packed) for name, packed in found)


def first_held_out(directory: Path, run: str) -> str:
    """Return the name of a run's first held-out episode whose steps static pages keep."""
    begin = f"run/{run}/episode/"
    return min(name for name in kept_documents(directory) if name.startswith(f"{begin}held_out-")).removeprefix(begin)


def _unpacked(name: str, packed: str) -> tuple[str, Any]:
    return name, json.loads(gzip.decompress(base64.b64decode(packed)))
