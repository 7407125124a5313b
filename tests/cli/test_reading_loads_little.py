"""Verbs that read runs load nothing that plays: no simulator, no sandbox, no server."""

import subprocess
import sys
from pathlib import Path

import pytest

from played_runs import PlayedRun

LOADED = """
import sys
from evopolicygym.cli.main import main
sys.argv[0] = "evopolicygym"
try:
    main()
except SystemExit as leaving:
    assert not leaving.code, leaving.code
parts = {name.split(".")[1] for name in sys.modules if name.startswith("evopolicygym.")}
halves = {".".join(name.split(".")[:3]) for name in sys.modules if name.startswith("evopolicygym.api.")}
others = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(parts), "|", *sorted(halves), "|", *sorted(others), file=sys.stderr)
"""
READING = {
    "analysis",
    "api",
    "cli",
    "core",
    "export",
    "judge_client",
    "records",
    "report",
    "specs",
    "version",
    "viewer",
}
"""Packages of ours that reading may load."""
HALVES = {"evopolicygym.api.read"}
LIBRARIES = {"gymnasium", "starlette", "uvicorn", "anyio", "httpx", "httpx2"}
"""Libraries of simulators, servers and sandboxes."""
VERBS = {
    "show": ["show", "RUN"],
    "leaderboard": ["leaderboard", "RUN"],
    "compare": ["compare", "players:make_evolver", "Uniform random", "RUN"],
    "diagnose": ["diagnose", "RUN"],
    "audit": ["audit", "RUN"],
    "verify": ["verify", "RUN"],
    "export csv": ["export", "csv", "RUN", "-o", "OUT"],
    "report": ["report", "RUN", "-o", "OUT", "--no-figures"],
}


def packages_of(done: subprocess.CompletedProcess[str]) -> tuple[set[str], ...]:
    """Return the names that a verb loaded: packages of ours, halves of the API, libraries."""
    assert done.returncode == 0, done.stderr
    return tuple(set(names.split()) for names in done.stderr.splitlines()[-1].split("|"))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("at_home")
def test_reading_loads_nothing_that_plays(verb: str, played_run: PlayedRun, tmp_path: Path) -> None:
    """Each verb that reads works with the packages of the reading half alone."""
    places = {"RUN": str(played_run.paths.root), "OUT": str(tmp_path / "out")}
    line = [sys.executable, "-c", LOADED, *(places.get(word, word) for word in VERBS[verb])]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    parts, halves, others = packages_of(done)

    assert (parts - READING, halves - HALVES, others & LIBRARIES) == (set(), set(), set())


@pytest.mark.usefixtures("at_home")
def test_a_replay_loads_what_plays(played_run: PlayedRun) -> None:
    """The same look at a verb that plays finds the packages by these names, so they are no misspelling."""
    line = [sys.executable, "-c", LOADED, "verify", str(played_run.paths.root), "--replay", "--workers", "1"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    parts, halves, others = packages_of(done)

    assert {"runs", "sandbox", "environments"} <= parts
    assert halves == {"evopolicygym.api.play", "evopolicygym.api.read"}
    assert "gymnasium" in others
