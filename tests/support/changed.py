"""Which tests `make quick` runs: those of what git says was changed since main, or else some quick ones of each room.

How long they may take is decided in `quick.py`.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from long_tests import known
from places import ROOT

MAIN = ("origin/main", "main")
FLOORS = "tests/project/test_floors.py"
ALSO = {"sandbox": ("attacks",), "judge": ("attacks",), "rollout": ("attacks",), "specs": ("environments",)}
"""Rooms whose promises are held by the tests of another folder too."""
OF_A_ROOM = 3
"""Files of a room that are run where no room, or all of them, were changed."""
OF_ALL = {"pyproject.toml", "constraints.txt", "Makefile", "tests/conftest.py"}
"""Files on which every test depends."""


def changed() -> list[str]:
    """Return the paths of what differs from where main was left, and of what git doesn't know yet."""
    bases = (_git("merge-base", "HEAD", branch) for branch in MAIN)
    base = next((found[0] for found in bases if found), "HEAD")
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def touched_by(paths: list[str]) -> list[str]:
    """Return the test files and folders that a change of these paths touches; none where it touches none or all."""
    if OF_ALL.intersection(paths):
        return []
    chosen = dict.fromkeys(one for path in paths for one in _touched_by(path))
    there = [one for one in chosen if (ROOT / one).exists()]
    widest = [one for one in there if not any(one.startswith(f"{other}/") for other in there)]
    return sorted(widest, key=lambda one: one == FLOORS)  # which has thousands of cases


def core() -> list[str]:
    """Return some files of each room, those known to take least and then the smallest, and the floors."""
    chosen = list[str]()
    for room in sorted(ROOT.glob("tests/*/")):
        files = sorted(room.glob("test_*.py"), key=lambda file: (_seconds_of(file), file.stat().st_size))
        names = [file.relative_to(ROOT).as_posix() for file in files]
        chosen += [name for name in names if name != FLOORS][:OF_A_ROOM]
    return [*chosen, FLOORS]


def _seconds_of(file: Path) -> float:
    name = file.relative_to(ROOT).as_posix()
    return sum(seconds for test, seconds in known().items() if test.startswith(f"{name}::"))


def _touched_by(path: str) -> Iterator[str]:
    match path.split("/"):
        case ["tests", "support", name, *_]:
            yield from _using(name.removesuffix(".py"))
        case ["tests", _, name] if name.startswith("test_"):
            yield path
        case ["tests", room, _, *_]:
            yield f"tests/{room}"
        case ["src", _, room, *rest]:
            yield FLOORS
            if rest:
                yield from (f"tests/{one}" for one in (room, *ALSO.get(room, ())))
        case ["docs", *_] | [("README.md" | "CONTRIBUTING.md")]:
            yield "tests/project/test_docs.py"
        case ["results", *_]:
            yield from ("tests/project/test_shipped.py", "tests/project/test_shipped_outputs.py")


def _using(name: str) -> Iterator[str]:
    """Yield the test files that import a module of tests/support, or name a folder of it."""
    imported = re.compile(rf"^(?:from|import) {re.escape(name)}\b|[\"'/]{re.escape(name)}[\"'/]", re.MULTILINE)
    for file in sorted(ROOT.glob("tests/*/test_*.py")):
        if imported.search(file.read_text(encoding="utf-8")):
            yield file.relative_to(ROOT).as_posix()


def _git(*words: str) -> list[str]:
    line = ["git", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def main() -> None:
    """Run the tests of what was changed by `pytest --quick`, and say which they are."""
    paths = changed()
    touched = touched_by(paths)
    chosen = touched or core()
    of = "of what they touch" if touched else "of each room, as they touch none or all"
    sys.stdout.write(f"{len(paths)} files differ from main. Tests {of}: {' '.join(chosen)}\n")
    sys.stdout.flush()
    line = [
        sys.executable,
        "-m",
        "pytest",
        "--quick",
        "-q",
        "-m",
        "not slow and not tools",
        "-n",
        "2",
        "--dist",
        "load",
    ]
    sys.exit(subprocess.run([*line, "--maxfail", "3", *chosen], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
