# ruff: noqa: INP001, T201 - run by itself inside a workplace, and prints what it found
"""Looks for what an agent must not find, simulators in any Python it can start and paths of the host; and for itself.

Arguments: simulators' module names, joined by commas; paths, joined by colons; the agent's program; further Python
programs. Prints JSON: ``pythons`` tried, ``simulators`` as [Python, module], ``paths`` that exist, and where the
``program`` lies.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def simulators(python: str) -> list[str]:
    """Return the simulators that a Python can import."""
    command = [python, "-c", LOOK, sys.argv[1]]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def main() -> None:
    """Look, and tell."""
    tried = pythons()
    found = [(python, name) for python in tried for name in simulators(python)]
    paths = [path for path in sys.argv[2].split(":") if path and Path(path).exists()]
    print(json.dumps({"pythons": tried, "simulators": found, "paths": paths, "program": shutil.which(sys.argv[3])}))


main()
