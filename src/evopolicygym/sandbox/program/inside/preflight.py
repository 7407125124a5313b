# ruff: noqa: INP001, T201 - run by itself inside a workplace, and prints its report
"""Checks an agent's sandbox for simulators in any Python, for paths of the host, and for the agent's program.

Arguments: simulators' module names, joined by commas; paths, joined by colons; the agent's program; further Python
executables. Prints JSON: the ``pythons`` that were run, ``simulators`` as [Python, module], ``paths`` that exist,
``writable`` system files, and the path of the ``program``.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

READ_ONLY = ("/", "/usr", "/dev", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/workspace/feedback")
FIND_SIMULATORS = """
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
    """Return every Python on the PATH or in the arguments, once for each directory, which decides about packages."""
    directories = [Path(directory) for directory in os.environ["PATH"].split(":") if directory]
    on_path = [str(program) for directory in directories for program in sorted(directory.glob("python3*"))]
    programs = [program for program in (*on_path, *sys.argv[4:]) if "config" not in Path(program).name]
    executables = [program for program in programs if os.access(program, os.X_OK)]
    return list(
        {(os.path.realpath(Path(path).parent), os.path.realpath(path)): path for path in reversed(executables)}.values()
    )


def find_simulators(programs: list[str]) -> dict[str, list[str]]:
    """Return the simulators that each Python can import; programs that aren't a Python are left out."""
    by_python = {}
    for first in range(0, len(programs), AT_ONCE):
        batch = {program: start_search(program) for program in programs[first : first + AT_ONCE]}
        for program, process in batch.items():
            output = process.communicate()[0] if process else ""
            if process and not process.returncode:
                by_python[program] = output.split()
    return by_python


def start_search(python: str) -> "subprocess.Popen[str] | None":
    """Start a search for the simulators that a Python can import; None if it can't be started."""
    words = [python, "-c", FIND_SIMULATORS, sys.argv[1]]
    try:
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def is_shown(path: str) -> bool:
    """Return whether a path exists, or may exist in an unreadable directory."""
    try:
        os.stat(path)  # noqa: PTH116 - pathlib hides the kind of error
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def main() -> None:
    """Print the report."""
    by_python = find_simulators(pythons())
    simulators = [(python, name) for python, names in by_python.items() for name in names]
    paths = [path for path in sys.argv[2].split(":") if path and is_shown(path)]
    writable = [path for path in READ_ONLY if os.access(path, os.W_OK)]
    report = {"pythons": list(by_python), "simulators": simulators, "paths": paths, "writable": writable}
    print(json.dumps({**report, "program": shutil.which(sys.argv[3])}))


main()
