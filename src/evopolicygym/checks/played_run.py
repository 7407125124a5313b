"""The short run that the checks of trackers, exporters, figures and diagnostics read, and how they report errors."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import EvoPolicyGymError, described

ENVIRONMENT, AGENT = "cartpole", "random"
SIZES = ("--budget", "4", "--max-episodes", "2", "--validation", "1", "--held-out", "2")
"""Of the run: two submissions."""


@contextmanager
def played_run() -> Iterator[Path]:
    """Yield the directory of a finished run, which is removed afterwards; its state directory is a temporary one."""
    with TemporaryDirectory(prefix="evopolicygym-check-") as directory:
        runs = Path(directory, "runs")
        program = (sys.executable, "-P", "-m", "evopolicygym")
        played = subprocess.run(
            [*program, "run", ENVIRONMENT, "--agent", AGENT, *SIZES, "--quiet", "--runs", str(runs)],
            env={
                **os.environ,
                "XDG_STATE_HOME": str(Path(directory, "state")),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if played.returncode:
            raise EvoPolicyGymError(f"A run of {ENVIRONMENT} for this check failed: {played.stderr.strip()}")
        (record,) = runs.rglob("run.json")
        yield record.parent


def attempt(name: str, what: Callable[[], str]) -> CheckResult:
    """Return the finding of a name: ``what`` returns its detail, and raises if it fails; ``Broken`` has a sentence."""
    try:
        return CheckResult(name, ok=True, detail=what())
    except Broken as error:
        return CheckResult(name, ok=False, detail=str(error))
    except Exception as error:  # noqa: BLE001 - of another package's code
        return CheckResult(
            name, ok=False, detail=str(error) if isinstance(error, EvoPolicyGymError) else described(error)
        )


class Broken(Exception):
    """A part doesn't keep its contract, as the message says."""
