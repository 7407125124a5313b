"""Where a container's filter refuses namespaces, a run says what isn't enforced and what would allow them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import container_filter
from enclosed import needs_bubblewrap

PROGRAM = (sys.executable, "-m", "evopolicygym")
IN_A_CONTAINER = (sys.executable, str(Path(container_filter.__file__)), *PROGRAM)
SHORT = ("cartpole", "--agent", "random", "--validation", "1", "--held-out", "1")
PAGE = "docs/use/containers.md"


def typed(*words: object) -> "subprocess.CompletedProcess[str]":
    """Type a command in a container."""
    return subprocess.run([*IN_A_CONTAINER, *map(str, words)], capture_output=True, text=True, check=False)


def test_a_run_that_falls_back(tmp_path: Path) -> None:
    """A run opens with the reason, the guarantees that are lost, an agent's program among them, and the page."""
    ended = typed("run", *SHORT, "--budget", "1", "--runs", tmp_path)

    assert ended.returncode == 0, ended.stderr
    warning = next(line for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("Warning"))
    assert all(word in warning for word in ("filter of system calls", PAGE, "program-enclosed", "files-private"))
    assert [json.loads(file.read_text())["isolation"]["level"] for file in tmp_path.rglob("run.json")] == ["process"]


@needs_bubblewrap
def test_a_resume_without_namespaces(tmp_path: Path) -> None:
    """A run of bubblewrap is not resumed otherwise: the first line names the cause and the page; nothing changed."""
    line = [*PROGRAM, "run", *SHORT, "--budget", "4096", "--isolation", "bubblewrap", "--runs", str(tmp_path)]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=unbuffered
    ) as playing:
        assert playing.stderr
        assert any(text.startswith("record") for text in playing.stderr)
        playing.send_signal(signal.SIGINT)
        playing.stderr.read()
    (journal,) = tmp_path.rglob("journal.jsonl")
    before = journal.read_bytes()
    ended = typed("resume", journal.parent)
    first, *rest = ended.stderr.splitlines()

    assert ended.returncode == 4
    assert "filter of system calls" in first
    assert PAGE in first
    assert not any("Traceback" in text or "[" in text for text in rest)
    assert journal.read_bytes() == before
