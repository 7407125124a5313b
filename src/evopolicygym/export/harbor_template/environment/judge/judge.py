"""The judge's container: serves one run, finishes it on request, and stores the outcome, which Harbor fetches.

  judge.py serve TASK …    the container's program: `evopolicygym serve TASK …`, resumed after a crash
  judge.py finish SECONDS  closes the run if it is open, and waits for its score

It starts as root. The run is served by the same user as the agent's in its container: they share /workspace and
/socket. /outcome is in this container alone, and root's.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Thread

WORKSPACE, SOCKET, OUTCOME, RECORDS = Path("/workspace"), Path("/socket"), Path("/outcome"), Path("/records")
"""The first two are volumes that the agent's container shares."""
FINISH, SCORED, FAILED = OUTCOME / "finish", OUTCOME / "outcome.json", OUTCOME / "failed.json"
"""The request to close the run; its outcome; the report of a failure."""
RECORD = OUTCOME / "record.tar.gz"
USER = 1000
LISTEN = "127.0.0.1:8000"
"""Address in this container for its own request to finish, which the agent can't reach."""
ANSWERS = re.compile(r"The judge answers at \S+/([\w-]+)$")
ANSWERED = {0, 1}
"""Exit codes of the judge's client: done, and refused."""
TRIES, LOOK_S, LAST_LINES = 3, 0.2, 20
LEFT_OUT = {"evaluation", "staging", "lock"}
"""Directories that are large and can be played again by `evopolicygym verify --replay`, or are temporary."""


def serve(words: list[str]) -> None:
    """Serve a run to its end, store its outcome, and wait until the container is stopped."""
    prepare()
    for _ in range(TRIES):
        code, log_tail = serve_once(words)
        if not has_run():
            sys.exit(code)  # a container that ends is noticed at once
        if code == 0:
            call("reveal", "--yes", "--runs", str(RECORDS / "runs"))  # no other run has its cases
            keep_record()
            (OUTCOME / "part").rename(SCORED)
            break
    else:
        keep_record()
        FAILED.write_text(json.dumps({"exit_code": code, "said": log_tail}), encoding="utf-8")
    while True:
        signal.pause()


def prepare() -> None:
    """Create the directories and set their owners."""
    for directory in (WORKSPACE, SOCKET, RECORDS):
        directory.mkdir(parents=True, exist_ok=True)
        if is_root():
            os.chown(directory, USER, USER)
    OUTCOME.mkdir(parents=True, exist_ok=True)
    OUTCOME.chmod(0o700)


def serve_once(words: list[str]) -> tuple[int, list[str]]:
    """Serve a new run or resume it; return the exit code and the last lines of its log."""
    run = ["--resume", "latest"] if has_run() else [*words, "--label", "harbor", "--workspace", str(WORKSPACE)]
    options = ["--listen", LISTEN, "--socket", str(SOCKET / "judge.sock"), "--runs", str(RECORDS / "runs"), "--json"]
    log: deque[str] = deque(maxlen=LAST_LINES)
    token: list[str] = []
    with (OUTCOME / "part").open("wb") as part, start(["serve", *run, *options], part.fileno()) as process:
        reader = Thread(target=lambda: read_log(process, log, token), daemon=True)
        reader.start()
        is_finishing = False
        while process.poll() is None:
            if FINISH.exists() and token and not is_finishing:
                is_finishing = request_finish(token[-1])
            time.sleep(LOOK_S)
        reader.join()
    return process.returncode, list(log)


def read_log(process: "subprocess.Popen[str]", log: deque[str], token: list[str]) -> None:
    """Copy the judge's log to stderr, and find the token for requests in it."""
    for line in process.stderr or ():
        sys.stderr.write(line)
        sys.stderr.flush()
        log.append(line.rstrip())
        if match := ANSWERS.search(line.rstrip()):
            token.append(match[1])


def request_finish(token: str) -> bool:
    """Ask the judge to close the run; return whether it answered: a run that is closed refuses."""
    line = [sys.executable, "-P", "-m", "evopolicygym.judge_client", "finish"]
    address = {"EVOPOLICYGYM_INFO_URL": f"http://{LISTEN}/{token}/info"}
    return subprocess.run(line, env={**os.environ, **address}, cwd=OUTCOME, check=False).returncode in ANSWERED


def start(words: list[str], out: int | None = None) -> "subprocess.Popen[str]":
    """Start evopolicygym as the user of policies and of the agent."""
    home = {"HOME": str(RECORDS), "XDG_STATE_HOME": str(RECORDS / "state")}
    user = USER if is_root() else None
    line = [sys.executable, "-P", "-m", "evopolicygym", *words]
    return subprocess.Popen(
        line,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        cwd=RECORDS,
        env={**os.environ, **home},
        user=user,
        group=user,
        extra_groups=[] if is_root() else None,
    )


def call(*words: str) -> None:
    """Run evopolicygym; ignore its exit code."""
    with start(list(words), subprocess.DEVNULL) as process:
        sys.stderr.write(process.communicate()[1])


def keep_record() -> None:
    """Archive the run directory beside the outcome."""
    part = RECORD.with_suffix(".part")
    with suppress(OSError), tarfile.open(part, "w:gz") as archive:
        archive.add(RECORDS / "runs", "runs", filter=lambda entry: None if Path(entry.name).name in LEFT_OUT else entry)
    with suppress(OSError):
        part.rename(RECORD)


def finish(seconds: float) -> int:
    """Close the run and wait for its score; return 1 and archive the run directory if there is none."""
    FINISH.touch()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if SCORED.exists():
            return 0
        if FAILED.exists():
            sys.stderr.write(FAILED.read_text(encoding="utf-8"))
            return 1
        time.sleep(LOOK_S)
    keep_record()
    sys.stderr.write(f"not scored within {seconds:g} s; the record lies in {RECORD}\n")
    return 1


def has_run() -> bool:
    """Return whether there is a run to resume."""
    return any((RECORDS / "runs").glob("*/*/*/*/journal.jsonl"))


def is_root() -> bool:
    """Return whether this process runs as root."""
    return os.geteuid() == 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *words]:
            serve(words)
        case ["finish", seconds]:
            sys.exit(finish(float(seconds)))
        case _:
            sys.exit(__doc__)
