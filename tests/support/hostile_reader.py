"""Goes through verbs that read a record, in a process with little memory.

``python hostile_reader.py RUNS OUT [VERB …]`` tries these verbs, or without one all of them and what reads all runs at
once. It prints, as the last line, a JSON object: what each verb printed and with which code it left, by verb and run,
and the largest memory of this process. A verb is read from the program's own table: a new one is tried as ``VERB RUN``.
"""

import contextlib
import io
import json
import resource
import sys
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

MEMORY = 4 << 30
OTHERS = {
    "run": "begins a run",
    "suites": "lists suites that ship",
    "train": "trains a policy",
    "environments": "lists environments",
    "check": "tries an environment, agent, executor or sandbox",
}
"""Verbs that read no record."""


def commands(runs: Path, out: Path, run: Path) -> dict[str, list[list[object]]]:
    """Return how verbs are asked that want more than a run."""
    here = out / run.relative_to(runs).as_posix().replace("/", "-")
    return {
        "verify": [[run], [run, "--replay", "--workers", 1], [run, "--json"]],
        "show": [[run], [run, "--json"]],
        "film": [[run, "--workers", 1], [run, "--split", "train", "--workers", 1]],
        "leaderboard": [[run], [run, "--json"], [run, "--format", "markdown"]],
        "compare": [[run, run], [run, run, "--json"]],
        "diagnose": [[run], [run, "--json"]],
        "export": [["csv", run, "-o", here / "csv"], ["parquet", run, "-o", here / "parquet"]],
        "report": [],  # of all runs at once
        "view": [],
        "reveal": [[run.parent.name, "--runs", run.parent.parent, "--yes"]],
        "suite": [["core16", "--dry-run", "--runs", run.parent.parent, "--experiment", run.parent.name]],
    }


def typed(*arguments: object) -> tuple[int, str]:
    """Return how the program left, and all that it printed."""
    from evopolicygym.cli import main, output

    for cached in (output.out, output.err):
        cached.cache_clear()
    printed, code = io.TextIOWrapper(io.BytesIO(), "utf-8"), 0
    sys.argv = ["evopolicygym", *map(str, arguments)]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main.main()
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        except BaseException:  # noqa: BLE001 - whatever it is, it is told
            code = -1
            traceback.print_exc()
        printed.flush()
    return code, printed.buffer.getvalue().decode("utf-8", "backslashreplace")  # type: ignore[attr-defined]


def verbs() -> Iterator[str]:
    """Yield the names of the program's verbs that may read a record."""
    import typer

    from evopolicygym.cli import main

    yield from (name for name in typer.main.get_command(main.app).commands if name not in OTHERS)  # type: ignore[attr-defined]


def viewed(runs: Path) -> tuple[int, str]:
    """Return what the viewer answers for all names that it links to."""
    from evopolicygym.viewer.site.serving import ServedViewer

    bodies: list[str] = []

    def get(name: str) -> bytes:
        asked = urllib.request.Request(f"{viewer.address}/{name}")  # noqa: S310 - ours
        asked.add_header("Authorization", f"Bearer {viewer.access.token}")
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - as above
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        bodies.append(repr(body) if name.startswith("film") else body.decode("utf-8", "backslashreplace"))
        return body

    with ServedViewer([runs]) as viewer:
        listed = json.loads(get("data/runs.json"))
        for name in ("suite", "task/cartpole", "pulse"):
            get(f"data/{name}.json")
        for one in listed["runs"]:
            episodes = ("train-0-0", "train-0-1", "held_out-0", "validation-0")
            within = ("", "/edits", "/submission/0", "/submission/1", "/transcript/0", "/pulse")
            for name in (*within, *(f"/episode/{episode}" for episode in episodes)):
                get(f"data/run/{one['id']}{name}.json")
            for episode in episodes:
                get(f"film/{one['id']}/{episode}.mp4")
    return 0, "\n".join(bodies)


def loaded(runs: Path) -> tuple[int, str]:
    """Return what Python's face reads."""
    from evopolicygym.analysis.run_tables import load_runs
    from evopolicygym.core.errors import EvoPolicyGymError

    try:
        found = load_runs(runs)
        return 0, repr([ascii(found.runs), ascii(found.episodes), sum(1 for _ in found.steps())])
    except (EvoPolicyGymError, OSError) as error:
        return 1, ascii(error)


def main(runs: Path, out: Path, some: list[str]) -> None:
    """Try everything, or some verbs, on every run, and tell."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    told: dict[str, tuple[int, str]] = {}
    roots = sorted({path.parent for path in runs.rglob("checkpoints*")})
    for run in roots:
        asked = commands(runs, out, run)
        for verb in some or verbs():
            for arguments in asked.get(verb, [[run]]):
                told[" ".join(map(str, (verb, *arguments)))] = typed(verb, *arguments)
    if not some:
        told |= told_of_all(runs, out)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    sys.__stdout__.write(json.dumps({"told": told, "memory": most}) + "\n")  # type: ignore[union-attr]


def told_of_all(runs: Path, out: Path) -> dict[str, tuple[int, str]]:
    """Return what is said of all runs at once."""
    told: dict[str, tuple[int, str]] = {}
    whole: dict[str, Callable[[Path], tuple[int, str]]] = {"view": viewed, "load_runs": loaded}
    for name, tried in whole.items():
        told[name] = tried(runs)
    for verb, *arguments in (["leaderboard"], ["report", "-o", out / "all", "--no-figures", "--episodes", "all"]):
        told[f"{verb} of all"] = typed(verb, runs, *arguments)
    return told


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
