"""The judge's container: serves one run, finishes it when it is asked to, and keeps the outcome where only root reads.

  judge.py serve TASK …    what the container does: `evopolicygym serve TASK …`, resumed where it broke off
  judge.py finish SECONDS  closes the run if it is open, and waits until it is scored

It is started as root. The run is served by the user that the agent has too, in its own container: they share
/workspace and /socket, and neither can enter /outcome.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Thread

WORKSPACE, SOCKET, OUTCOME, RECORDS = Path("/workspace"), Path("/socket"), Path("/outcome"), Path("/records")
"""The first three are volumes; /records lies in this container alone."""
FINISH, SCORED, FAILED = OUTCOME / "finish", OUTCOME / "outcome.json", OUTCOME / "failed.json"
"""The run is to be closed; what came of it; why nothing did."""
RECORD = OUTCOME / "record.tar.gz"
USER = 1000
LISTEN = "127.0.0.1:8000"
"""Inside this container, for its own request to finish: the agent can take no part in it."""
ANSWERS = re.compile(r"The judge answers at \S+/([\w-]+)$")
TRIES, LOOK_S, LAST_LINES = 3, 0.2, 20
LEFT_OUT = {"evaluation", "staging", "lock"}
"""Most of a record's size, all of which `evopolicygym verify --replay` plays again; and what is not of a record."""


def serve(words: list[str]) -> None:
    """Serve a run to its end, keep its outcome, and stay for whoever fetches it."""
    prepare()
    for _ in range(TRIES):
        code, said = served(words)
        if not is_begun():
            sys.exit(code)  # a container that ends is noticed at once
        if code == 0:
            call("reveal", "--yes", "--runs", str(RECORDS / "runs"))  # its cases are those of no other run
            keep_record()
            (OUTCOME / "part").rename(SCORED)
            break
    else:
        keep_record()
        FAILED.write_text(json.dumps({"exit_code": code, "said": said}), encoding="utf-8")
    while True:
        signal.pause()


def prepare() -> None:
    """Have the directories belong to whom they are for."""
    for directory in (WORKSPACE, SOCKET, RECORDS):
        directory.mkdir(parents=True, exist_ok=True)
        if is_root():
            os.chown(directory, USER, USER)
    OUTCOME.mkdir(parents=True, exist_ok=True)
    OUTCOME.chmod(0o700)


def served(words: list[str]) -> tuple[int, list[str]]:
    """Serve the run, begun or resumed; return the exit code and the last lines that were printed."""
    asked = ["--resume", "latest"] if is_begun() else [*words, "--name", "harbor", "--workspace", str(WORKSPACE)]
    where = ["--listen", LISTEN, "--socket", str(SOCKET / "judge.sock"), "--runs", str(RECORDS / "runs"), "--json"]
    said: deque[str] = deque(maxlen=LAST_LINES)
    token: list[str] = []
    with (OUTCOME / "part").open("wb") as part, started(["serve", *asked, *where], part.fileno()) as process:
        listening = Thread(target=lambda: listen(process, said, token), daemon=True)
        listening.start()
        asked_to_finish = False
        while process.poll() is None:
            if FINISH.exists() and token and not asked_to_finish:
                asked_to_finish = finish_was_heard(token[-1])
            time.sleep(LOOK_S)
        listening.join()
    return process.returncode, list(said)


def listen(process: "subprocess.Popen[str]", said: deque[str], token: list[str]) -> None:
    """Pass on what the judge prints, and take from it the token that requests need."""
    for line in process.stderr or ():
        sys.stderr.write(line)
        sys.stderr.flush()
        said.append(line.rstrip())
        if found := ANSWERS.search(line.rstrip()):
            token.append(found[1])


def finish_was_heard(token: str) -> bool:
    """Ask the judge to close the run; return whether it answered."""
    address = f"http://{LISTEN}/{token}/finish"
    request = urllib.request.Request(address, b"{}", {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10):
            return True
    except urllib.error.HTTPError as refused:
        return refused.code == 409  # it is closed already
    except OSError:
        return False


def started(words: list[str], out: int | None = None) -> "subprocess.Popen[str]":
    """Start the program as the user whom policies and the agent have too."""
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
    """Have the program do something of which nothing depends."""
    with started(list(words), subprocess.DEVNULL) as process:
        sys.stderr.write(process.communicate()[1])


def keep_record() -> None:
    """Keep the run's record where its outcome is, as one file."""
    part = RECORD.with_suffix(".part")
    with suppress(OSError), tarfile.open(part, "w:gz") as archive:
        archive.add(RECORDS / "runs", "runs", filter=lambda one: None if Path(one.name).name in LEFT_OUT else one)
    with suppress(OSError):
        part.rename(RECORD)


def finish(seconds: float) -> int:
    """Have the run closed and wait for its score; return 1 where there is none, with the record as it is."""
    FINISH.touch()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if SCORED.exists():
            return 0
        if FAILED.exists():
            sys.stderr.write(FAILED.read_text(encoding="utf-8"))
            return 1
        time.sleep(LOOK_S)
    keep_record()
    sys.stderr.write(f"not scored within {seconds:g} s; the record lies in {RECORD}\n")
    return 1


def is_begun() -> bool:
    """Return whether there is a run to resume."""
    return any((RECORDS / "runs").glob("*/*/*/*/journal.jsonl"))


def is_root() -> bool:
    """Return whether there is a user to step down to."""
    return os.geteuid() == 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *words]:
            serve(words)
        case ["finish", seconds]:
            sys.exit(finish(float(seconds)))
        case _:
            sys.exit(__doc__)
