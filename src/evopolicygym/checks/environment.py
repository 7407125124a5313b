"""The check of an environment, for the author of a spec.

It takes some seconds, in a separate process, which is killed if a simulator hangs. Run as a program, it reads
``{"spec": …, "path": …, "patience": …, "quick": …}`` from standard input, and writes one finding per line to the
descriptor that its argument names.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from tempfile import TemporaryFile

from evopolicygym.checks.environment_contract import examine
from evopolicygym.core.errors import UsageError
from evopolicygym.core.finding import Finding
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.packs.installation import command
from evopolicygym.specs import catalog

PATIENCE_S = 60.0
"""Seconds that any one finding may take, by default."""
FRAMES = 4
"""Number of innermost stack frames in the report of a hang."""


def check(name: str | EnvironmentSpec, patience_s: float = PATIENCE_S, *, quick: bool = False) -> Iterator[Finding]:
    """Check the environment of a name, of a path to a TOML file, or of a spec; yield one finding after another.

    A finding that takes longer than ``patience_s`` ends the check, as a fault. When ``quick``, it plays one random
    episode.
    """
    try:
        spec = name if isinstance(name, EnvironmentSpec) else catalog.load(name)
    except UsageError as error:
        yield Finding("loads", ok=False, detail=str(error))
        return
    request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path, "patience": patience_s, "quick": quick}
    ours, theirs = os.pipe()
    with TemporaryFile("w+") as asking, TemporaryFile() as said, os.fdopen(ours, encoding="utf-8") as lines:
        asking.write(json.dumps(request))
        asking.seek(0)
        line = command(spec.pack, "evopolicygym.checks.environment", str(theirs))
        process = subprocess.Popen(
            line, stdin=asking, stdout=said, stderr=said, pass_fds=[theirs], start_new_session=True
        )
        os.close(theirs)
        try:
            for text in lines:
                yield Finding(**json.loads(text))
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)  # it has said all, or is ended by its own clock
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            said.seek(0)
            yield _unanswered(spec, process.returncode, said.read().decode("utf-8", "replace"), patience_s)


def _unanswered(spec: EnvironmentSpec, code: int, said: str, patience_s: float) -> Finding:
    """Return what is found of a simulator that ended its process, or that was ended as it didn't come back."""
    _, hung, stood = said.rpartition("Timeout (")
    if not hung:
        return Finding(
            "answers", ok=False, detail=f"{spec.id} ended its process, exit code {code}: {said.strip()[-300:]}"
        )
    frames = [line.strip() for line in stood.splitlines() if line.strip().startswith("File ")][:FRAMES]
    where = "; ".join(frames) or "nobody knows where"
    return Finding("answers", ok=False, detail=f"{spec.id} gave no answer for {patience_s:g} s; it stood in {where}")


def _main(descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    name = request["spec"].pop("name")
    with os.fdopen(descriptor, "w", encoding="utf-8", buffering=1) as lines:
        faulthandler.dump_traceback_later(request["patience"], exit=True)
        for finding in examine(catalog.decode(request["spec"], name, "standard input"), quick=request["quick"]):
            faulthandler.dump_traceback_later(request["patience"], exit=True)
            lines.write(json.dumps(asdict(finding)) + "\n")
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
