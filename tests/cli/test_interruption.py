"""Ctrl-C early on: whatever the program is doing then, it leaves as it does later, and says nothing that frightens."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from places import SUPPORT
from players import HALT

LOADED = "import time:"
"""How each line begins that the interpreter prints of a module that it has loaded."""
MOMENTS = (
    "typer",
    "evopolicygym.cli.options",
    "evopolicygym.api.play.progress",
    *(
        pytest.param(module, marks=pytest.mark.nightly)
        for module in ("evopolicygym.cli.main", "rich.console", "evopolicygym.specs.catalog", "evopolicygym.runs.run")
    ),
)
"""Modules that a run loads one after the other in its first second."""


@pytest.mark.parametrize("module", MOMENTS)
def test_ctrl_c_while_the_program_is_loading(tmp_path: Path, module: str) -> None:
    """Ctrl-C right after any module is loaded ends the program with its exit code, and without a traceback."""
    runs = ("--agent", "players:make_evolver", "--isolation", "process", "--workers", "1", "--runs", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "evopolicygym", "run", "cartpole", *runs],
        env={**os.environ, "PYTHONPATH": str(SUPPORT), "XDG_STATE_HOME": str(tmp_path / "state"), HALT: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    loaded = (line.rpartition("|")[2].strip() for line in process.stderr if line.startswith(LOADED))
    was_loaded = module in loaded
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate()

    assert was_loaded
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_goes_on_is_interrupted_in_good_order(number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and SIGHUP raise the same exception, and mean afterwards what they meant before."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(number)

    assert signal.getsignal(number) is before
