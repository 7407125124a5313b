"""Attacks of an agent's program on files of ours: feedback, the record, our Python (A03, A04, A09)."""

from pathlib import Path

import pytest

import evopolicygym
from enclosed import needs_bubblewrap, played_by, printed
from evopolicygym.core.event import Event, RunClosed, RunStatus
from evopolicygym.core.run import RunState
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.verify import findings
from fakes import RunMaker
from whole_runs import events

pytestmark = needs_bubblewrap


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file of this machine that nobody may touch."""
    file = tmp_path / "victim"
    file.write_text("untouched", encoding="utf-8")
    return file


FEEDBACK = """
victim=$1; published=feedback/submit_000
try() { "$@" 2>/dev/null && echo "DONE $*"; }
plant() {
  try ln -s "$victim" feedback/$1/summary.json; try ln -s "$victim" feedback/.summary.json.tmp
  try ln -s "$victim" feedback/summary.json.1.part; try mkdir feedback/$1; try ln -s "$victim" feedback/$1
}
plant submit_000
./judge submit 0-1 || exit 1
try sh -c "echo forged > $published/summary.json"; try sh -c "echo forged >> $published/episodes/ep_000/stdout.txt"
try chmod 777 $published $published/summary.json feedback; try rm -rf $published; try mv $published system/taken
try rm -rf feedback; try mv feedback system/feedback; try ln -sfn "$victim" feedback
try mount --bind system feedback; try touch $published/more; try ln $published/summary.json system/linked
plant submit_001
./judge submit 2-3 || exit 1
ls feedback
"""


@pytest.mark.needs_root
def test_feedback_is_not_the_agents_to_change(new_run: RunMaker, victim: Path) -> None:
    """A03: every edit, deletion, chmod, link and planted name fails; the next submission is ok, a victim untouched."""
    run = new_run()
    told = printed(run, "sh", "-c", FEEDBACK, "sh", str(victim))

    assert [line for line in told.splitlines() if line.startswith("DONE")] == []
    assert told.split()[-2:] == ["submit_000", "submit_001"]
    assert [one.status for one in run.session.state.submissions] == [SubmissionStatus.OK] * 2
    for one in run.session.state.submissions:
        assert one.published is not None
        assert feedback_sha256(run.feedback(one.index)) == one.published.feedback_sha256
    assert (victim.read_text(encoding="utf-8"), victim.stat().st_nlink) == ("untouched", 1)


LINKS = """
ln -s "$1" system/summary.json; ln -s "$1" system/.summary.json.tmp; ln -s / system/root; mkdir system/submit_001
./judge submit 0-1; echo "refused $?"
rm system/summary.json system/.summary.json.tmp system/root
./judge submit 0-1; echo "then $?"
"""


def test_links_planted_in_the_project(new_run: RunMaker, victim: Path) -> None:
    """A03: links in system/ are refused and charged nothing, are never followed, and hinder no later submission."""
    run = new_run()
    told = printed(run, "sh", "-c", LINKS, "sh", str(victim))

    assert ("refused 1" in told, "then 0" in told) == (True, True)
    assert [len(one.episodes) for one in run.session.state.submissions] == [2]
    assert victim.read_text(encoding="utf-8") == "untouched"


DAEMON = """
import os, pathlib, signal, subprocess, sys, time
policy, root = sys.argv[1], "/" + sys.argv[2]
pathlib.Path("system/policy.py").write_text(policy)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    places = [root, "/workspace/..", "/workspace/system/../..", "/proc/1/root" + root, "/proc/self/cwd/..", "/", "."]
    names = ["journal.jsonl", "run.json", "lock", "checkpoints", "evaluation", "feedback", "staging", "logs", "state"]
    while True:
        for path in (os.path.join(place, name) for place in places for name in names):
            try:
                if os.path.isdir(path):
                    open(os.path.join(path, "forged"), "w").close()
                else:
                    with open(path, "r+") as file:
                        file.write("forged")
                open("system/reached", "a").write(path + "\\n")
            except OSError:
                pass
        pathlib.Path("system/beat").write_text(str(time.monotonic()))
        time.sleep(0.01)
for _ in range(1000):  # a file that is written to while it is copied is refused
    if subprocess.run(["./judge", "submit", "0-1"]).returncode == 0:
        break
"""


@pytest.mark.needs_root
def test_record_is_out_of_a_daemons_reach(tmp_path: Path) -> None:
    """A04: a daemon that outlives its program reaches nothing of the record, and verifying finds every byte in place.

    By the time that the run is closed, before anything hidden is played, it is gone.
    """
    beats: list[bytes] = []

    def watch(event: Event, _state: RunState) -> None:
        if isinstance(event, RunClosed):
            beat = next(tmp_path.glob("runs/*/*/*/*/workspace/system/beat"))
            beats.append(beat.read_bytes())

    root = str(tmp_path / "runs").removeprefix("/")  # an argument that is an absolute path would be shown inside
    told = played_by(tmp_path / "runs", "python3", "-c", DAEMON, "GOOD", root, watch=watch)

    assert told.state.finished is not None
    assert told.state.finished.status is RunStatus.SCORED
    assert beats == [(told.paths.system / "beat").read_bytes()]
    assert not (told.paths.system / "reached").exists()
    assert [one for one in findings(told.paths.root) if not one.ok] == []
    assert events(told.paths)[-1] == told.state.finished


POISON = """
import os, pathlib, subprocess, sys
policy, marker, library = sys.argv[1:]
code = f"import os\\ntry:\\n    open({marker!r}, 'a').write(__name__)\\nexcept OSError:\\n    pass\\n"
for below in ("system", os.environ["HOME"], "/tmp", "."):
    for name in ("sitecustomize.py", "usercustomize.py", "json.py", "numpy.py", "random.py", "evopolicygym.py",
                 "guest.py", "conftest.py", "gymnasium.py"):
        try:
            pathlib.Path(below, name).write_text(code)
        except OSError:
            assert below == "."
    if below != ".":
        pathlib.Path(below, "poison.pth").write_text("import os; exec(" + repr(code) + ")\\n")
        pathlib.Path(below, "LD_PRELOAD.so").write_bytes(b"\\x7fELF")
        pathlib.Path(below, ".python-version").write_text("0.0")
        pathlib.Path(below, "pyvenv.cfg").write_text("home = /tmp")
        packages = pathlib.Path(below, ".local/lib/python3.11/site-packages")
        packages.mkdir(parents=True)
        packages.joinpath("poison.pth").write_text("import os; exec(" + repr(code) + ")\\n")
pathlib.Path("system/__pycache__").mkdir()
subprocess.run([sys.executable, "-m", "py_compile", "system/json.py"], check=True)
hooks = pathlib.Path("system/.git/hooks")
hooks.mkdir(parents=True)
for name in ("pre-commit", "post-checkout", "post-index-change"):
    hooks.joinpath(name).write_text(f"#!/bin/sh\\necho hook >> {marker}\\n")
    hooks.joinpath(name).chmod(0o755)
pathlib.Path("system/.git/config").write_text(f"[core]\\n\\tfsmonitor = echo hook >> {marker}\\n")
pathlib.Path("system/policy.py").write_text(policy)
os.environ.update(PYTHONPATH="/workspace/system", LD_PRELOAD="/workspace/system/LD_PRELOAD.so", PYTHONSTARTUP="json.py")
for path in (library, "/usr/lib/python3/dist-packages/poison.pth", "/usr/local/lib/poison.pth"):
    try:
        open(path, "a").write(code)
        print("REACHED", path)
    except OSError:
        pass
environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_"))}
subprocess.run(["python3", "-I", "judge", "submit", "0-1"], check=True, env=environment)
"""


@pytest.mark.needs_root
def test_our_python_is_not_poisoned(tmp_path: Path) -> None:
    """A09: modules, .pth files, bytecode, libraries and git hooks planted anywhere are never run by our side."""
    marker = tmp_path / "poisoned"
    before = _fingerprint(Path(evopolicygym.__file__).parent)
    library = str(Path(evopolicygym.__file__).parent / "cli" / "main.py")
    told = played_by(tmp_path / "runs", "python3", "-c", POISON, "GOOD", str(marker), library)

    assert told.state.finished is not None
    assert told.state.finished.status is RunStatus.SCORED
    assert "REACHED" not in told.paths.transcript.read_text(encoding="utf-8")
    assert not marker.exists()
    assert not [path for path in told.paths.checkpoints.rglob("*") if path.suffix == ".pyc" or ".git" in path.parts]
    assert _fingerprint(Path(evopolicygym.__file__).parent) == before
    assert [one for one in findings(told.paths.root) if not one.ok] == []


def _fingerprint(directory: Path) -> dict[str, tuple[int, int]]:
    files = sorted(directory.rglob("*.py"))
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}
