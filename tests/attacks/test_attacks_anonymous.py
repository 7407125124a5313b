"""An anonymous task in the real sandbox: nothing that its agent can read names it, its experiment or its run (A27)."""

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from evopolicygym.api.play.run import RunInterrupted
from evopolicygym.core.run import RunState
from players import GOOD

pytestmark = needs_bubblewrap

SEARCH = """
import base64, json, os, pathlib, subprocess, sys, time
pathlib.Path("system/policy.py").write_text(base64.b64decode(sys.argv[1]).decode())
subprocess.run(["./judge", "submit", "0-1"], check=True, stdout=subprocess.DEVNULL)
words = base64.b64decode(sys.argv[2]).decode().split("|")
found, looked, seen = {}, [], {}
def look(place, data):
    looked.append(place)
    text = (place + chr(10)).encode() + data
    for word in words:
        if word.encode() in text.lower():
            found.setdefault(word, []).append(place)
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 22)
    except OSError:
        return b""
for process in filter(str.isdigit, os.listdir("/proc")):
    for directory, names, files in os.walk(f"/proc/{process}"):
        names[:] = [name for name in names if name not in ("task", "map_files", "root", "cwd", "net")]
        for name in files:
            path = f"{directory}/{name}"
            if name not in ("mem", "pagemap", "kmsg", "clear_refs"):
                look(path, os.readlink(path).encode() if os.path.islink(path) else read(path))
for directory, names, files in os.walk("/"):
    if directory == "/":
        names[:] = set(names) - {"usr", "proc", "dev"}
    public = (sys.base_prefix, "/opt/policy/lib")
    names[:] = [name for name in names if os.path.join(directory, name) not in public]
    for path in (directory, *(os.path.join(directory, name) for name in files)):
        status = os.lstat(path)
        if not path.startswith("/sys/"):
            seen[path] = [None if os.path.isdir(path) else status.st_size, int(status.st_mtime), int(status.st_ctime)]
    for name in files:
        path = os.path.join(directory, name)
        look(path, os.readlink(path).encode() if os.path.islink(path) else read(path))
for name, value in os.environ.items():
    look(f"variable {name}", value.encode())
for path in pathlib.Path("/proc").glob("[0-9]*/mountinfo"):
    print("mounts:", path.read_text())
print(json.dumps({"found": found, "looked": len(looked), "seen": seen}), flush=True)
"""
"""The words come encoded, as the program's own command line can be read too."""
WORDS = (
    *("cartpole", "cart-pole", "cart_pole", "gymnasium", "classic_control", "classic control", "pole", "inverted"),
    *("walrus-trial", "zebra-harness", "outcome", "held_out_seeds", "held-out", "validation_cases", "journal.jsonl"),
    *("evopolicygym/experiments", "commitment", "random_anchor", "reference_anchor", "experiment_id"),
)


def play(place: Path, environment: str = "cartpole") -> tuple[dict[str, Any], str, evopolicygym.Run]:
    """Return what an agent found of these words, with sizes and times of all files; its output, and the run."""
    words = "|".join(WORDS).encode()
    command = ["python3", "-c", SEARCH, *(base64.b64encode(text).decode() for text in (GOOD.encode(), words))]
    run = evopolicygym.run(
        environment,
        command=command,
        label="zebra-harness",
        experiment="walrus-trial",
        interface="anonymous",
        isolation="bubblewrap",
        budget=4,
        validation=1,
        held_out=2,
        runs=place / "runs",
        workers=1,
    )
    printed = (run.path / "logs" / "agent.log").read_text(encoding="utf-8", errors="replace")
    return json.loads(next(line for line in printed.splitlines() if line.startswith('{"found"'))), printed, run


@pytest.mark.needs_root
def test_nothing_names_an_anonymous_task(tmp_path: Path) -> None:
    """Files, mounts, variables and processes hold neither the task nor the experiment, the agent, the run or its time.

    What the agent wrote is in the record in the end, and nothing is left in the place where it worked.
    """
    report, printed, run = play(tmp_path)
    document = json.loads((run.path / "run.json").read_bytes())
    state = Path(os.environ["XDG_STATE_HOME"]) / "evopolicygym"
    of_the_run = (run.path.name, run.path.name[:8], str(run.path), document["experiment"], str(tmp_path / "runs"))

    assert report["looked"] > 200  # it did look around
    assert report["found"] == {}
    assert [word for word in of_the_run if word in printed] == []
    assert (run.path / "workspace" / "system" / "policy.py").read_text(encoding="utf-8") == GOOD
    assert [*(state / "workspaces").iterdir()] == []


def foreign_times(seen: dict[str, list[int | None]], begin: float) -> list[str]:
    """Return the files whose times are neither of the run, nor of the package's template, nor the host's own."""
    template = Path(evopolicygym.__file__).parent
    known = {int(path.lstat().st_mtime) for path in template.rglob("*")} | {0}

    def is_public(path: str, times: list[int | None]) -> bool:
        try:
            status = Path(path).lstat()
        except OSError:
            return False
        return times == [int(status.st_mtime), int(status.st_ctime)]

    return [
        path
        for path, (_, *times) in seen.items()
        if any(time not in known and (time or 0) < begin - 1 for time in times) and not is_public(path, times)
    ]


@pytest.mark.nightly
@pytest.mark.needs_root
def test_sizes_and_times_name_no_task(tmp_path: Path) -> None:
    """Sizes are those that another task's agent sees, but for feedback; no time is of the experiment or another run."""
    other = play(tmp_path)[0]["seen"]
    begin = time.time()
    seen = play(tmp_path, "acrobot")[0]["seen"]
    sizes, other_sizes = ({path: size for path, (size, *_) in found.items()} for found in (seen, other))
    differing = [path for path in sizes.keys() | other_sizes.keys() if sizes.get(path) != other_sizes.get(path)]

    assert len(seen) > 200
    assert [path for path in differing if not path.startswith("/workspace/feedback/")] == []
    assert foreign_times(seen, begin) == []


def test_an_interrupted_run_goes_on_where_its_agent_worked(tmp_path: Path) -> None:
    """The neutral place outlives the process that plays the run, and its resumed agent finds its notes."""

    def interrupt(_event: object, state: RunState) -> None:
        if state.submissions and state.submissions[-1].published:
            raise KeyboardInterrupt

    words = "echo turn >> notes/turns; ./judge submit 0-1"
    options = {"budget": 4, "validation": 1, "held_out": 2, "runs": tmp_path / "runs", "workers": 1}
    with pytest.raises(RunInterrupted):
        evopolicygym.run(
            "cartpole",
            command=["sh", "-c", words],
            interface="anonymous",
            isolation="bubblewrap",
            on_event=interrupt,
            **options,
        )
    run = evopolicygym.resume(runs=tmp_path / "runs", workers=1)

    assert (run.path / "workspace" / "notes" / "turns").read_text(encoding="utf-8") == "turn\nturn\n"
