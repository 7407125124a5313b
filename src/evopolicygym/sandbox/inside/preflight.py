# ruff: noqa: INP001, T201 - run by itself inside a workplace, and prints what it found
"""Looks for what an agent must not find, simulators in any Python it can start and paths of the host; and for itself.

Arguments: simulators' module names, joined by commas; paths, joined by colons; the agent's program; further Python
programs. Prints JSON: ``pythons`` tried, ``simulators`` as [Python, module], ``paths`` that exist, what is ``writable``
that must not be, and where the ``program`` lies.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

READ_ONLY = ("/", "/usr", "/dev", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/workspace/feedback")
LOOK = """
import importlib.util, sys
print(*(name for name in sys.argv[1].split(",") if importlib.util.find_spec(name)))
"""


def pythons() -> list[str]:
    """Return every Python on the PATH or named, by its real path once."""
    places = [Path(place) for place in os.environ["PATH"].split(":") if place]
    found = [program for place in places for program in sorted(place.glob("python3*"))]
    programs = {os.path.realpath(program): str(program) for program in found if "config" not in program.name}
    return [*programs.values(), *sys.argv[4:]]


def simulators(python: str) -> "subprocess.Popen[str] | None":
    """Start to look for the simulators that a Python can import; None where it can't be started."""
    try:
        return subprocess.Popen([python, "-c", LOOK, sys.argv[1]], stdout=subprocess.PIPE, text=True)
    except OSError:
        return None


def main() -> None:
    """Look, and tell."""
    tried = pythons()
    looking = [(python, started) for python in tried if (started := simulators(python))]  # all at once
    found = [(python, name) for python, started in looking for name in started.communicate()[0].split()]
    paths = [path for path in sys.argv[2].split(":") if path and Path(path).exists()]
    writable = [path for path in READ_ONLY if os.access(path, os.W_OK)]
    told = {"pythons": tried, "simulators": found, "paths": paths, "writable": writable}
    print(json.dumps({**told, "program": shutil.which(sys.argv[3])}))


main()
