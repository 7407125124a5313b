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
import importlib.util, os, sys
def there(name):
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin or spec.submodule_search_locations is None:
        return spec is not None
    return any(os.listdir(place) for place in spec.submodule_search_locations)
print(*(name for name in sys.argv[1].split(",") if there(name)))
"""
AT_ONCE = 8


def pythons() -> list[str]:
    """Return every Python on the PATH or named, by where it lies once: packages lie beside the program."""
    places = [Path(place) for place in os.environ["PATH"].split(":") if place]
    found = [str(program) for place in places for program in sorted(place.glob("python3*"))]
    programs = [program for program in (*found, *sys.argv[4:]) if "config" not in Path(program).name]
    there = [program for program in programs if os.access(program, os.X_OK)]
    return list(
        {(os.path.realpath(Path(path).parent), os.path.realpath(path)): path for path in reversed(there)}.values()
    )


def looked(programs: list[str]) -> dict[str, list[str]]:
    """Return the simulators that each Python can import; those are left out that are none, or can't be started."""
    found = {}
    for first in range(0, len(programs), AT_ONCE):
        batch = {program: simulators(program) for program in programs[first : first + AT_ONCE]}
        for program, started in batch.items():
            said = started.communicate()[0] if started else ""
            if started and not started.returncode:
                found[program] = said.split()
    return found


def simulators(python: str) -> "subprocess.Popen[str] | None":
    """Start to look for the simulators that a Python can import; None where it can't be started."""
    words = [python, "-c", LOOK, sys.argv[1]]
    try:
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def is_shown(path: str) -> bool:
    """Return whether a path is there, or may be: below a directory that is there and can't be entered."""
    try:
        os.stat(path)  # noqa: PTH116 - whose errors differ
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def main() -> None:
    """Look, and tell."""
    tried = looked(pythons())
    found = [(python, name) for python, names in tried.items() for name in names]
    paths = [path for path in sys.argv[2].split(":") if path and is_shown(path)]
    writable = [path for path in READ_ONLY if os.access(path, os.W_OK)]
    report = {"pythons": list(tried), "simulators": found, "paths": paths, "writable": writable}
    print(json.dumps({**report, "program": shutil.which(sys.argv[3])}))


main()
