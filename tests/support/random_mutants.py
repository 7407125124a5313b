"""Plants slips generated from the code of a package: ``python tests/support/random_mutants.py --package core``.

A number of its slips (``slips.py``) is drawn by a seed. Each is planted in a copy of the checkout, as by
``run_mutants.py``, and meets the tests of the gate that execute its lines: those of the folder that mirrors the
package, then those of the packages that import the module. Which execute it is measured first, with coverage, on the
unmodified copy; a line that only other processes execute meets all of these tests. A slip that breaks imports counts
for nothing. The rate is printed with the survivors, and a line for each slip is appended to ``random_mutants.jsonl``
below the user's cache directory. A survivor is no defect: nobody sees what it changes, or a test is missing.
"""

import argparse
import ast
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from subprocess import TimeoutExpired

from coverage import CoverageData

from places import ROOT
from run_mutants import BREAKS_ALL, Copy, Mutant, copy_checkout
from slips import Slip, slips_of

PACKAGE = "src/evopolicygym"
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evopolicygym" / "random_mutants.jsonl"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - (.*))?$", re.MULTILINE)
MEASURED_S = 7200.0
"""Seconds for the tests on the unmodified copy."""
LEAST_S, SLOWER = 60.0, 3.0
"""Seconds after which a slip hangs, and how many times as long as without one its tests may take besides."""
FAILURES_KEPT = 30
"""Tests that may fail on the unmodified copy, and are left out; more of them mean that the checkout is broken."""


@dataclass(frozen=True, slots=True)
class Planted:
    """What came of one slip."""

    package: str
    file: str
    line: int
    kind: str
    before: str
    after: str
    result: str
    """``caught``, ``survived``, or ``broken`` (no module could be loaded)."""
    by: str
    """The test that failed, or ``hangs``: the gate ends what runs for long, as a failure."""
    tests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Selection:
    """The tests of a package, and which of them execute a line."""

    every: Sequence[str]
    """Files, those of the folder that mirrors the package first."""
    left_out: Sequence[str]
    """Tests that fail without any slip."""
    by_line: Mapping[tuple[str, int], Sequence[str]]
    seconds: float
    """How long all of them took."""

    def tests(self, file: str, slip: Slip) -> Sequence[str]:
        """Return the tests of a slip: those that execute its lines, or all."""
        lines = range(slip.line, slip.last_line + 1)
        found = dict.fromkeys(test for line in lines for test in self.by_line.get((file, line), ()))
        return [test for test in found if test not in self.left_out] or self.every


def main(words: Sequence[str]) -> int:
    """Plant slips of each package, and print the rates and the survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--package", action="append", metavar="NAME", help="such as core or analysis/ranking; several")
    parser.add_argument("--count", type=int, default=100, help="slips of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="slips at once")
    parser.add_argument("--near", action="store_true", help="only tests of the package's own folder")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the file that results are appended to")
    asked = parser.parse_args(words)
    packages = asked.package or ["core", "judge", "records", "model_proxy", "analysis/ranking", "environments"]
    if unknown := [name for name in packages if not (ROOT / PACKAGE / name).is_dir()]:
        parser.error(f"no package {', '.join(unknown)} in {PACKAGE}")
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        copies = [copy_checkout(Path(place, str(number))) for number in range(asked.jobs)]
        for package in packages:
            drawn = draw(package, asked.count, asked.seed)
            selection = select(package, {file for file, _ in drawn}, copies[0], asked.jobs, near=asked.near)
            found = plant_all(package, drawn, selection, copies, asked.kept)
            print_rate(package, found)
    return 0


def draw(package: str, count: int, seed: int) -> list[tuple[str, Slip]]:
    """Return some slips of a package's modules, each with its file."""
    files = sorted((ROOT / PACKAGE / package).rglob("*.py"))
    every = [
        (str(path.relative_to(ROOT)), slip) for path in files for slip in slips_of(path.read_text(encoding="utf-8"))
    ]
    chosen = random.Random(f"{seed} {package}").sample(  # noqa: S311 - a choice of slips, and no secret
        every, min(count, len(every))
    )
    print(f"{package}: {len(chosen)} of {len(every)} slips, seed {seed}", flush=True)
    return chosen


def select(package: str, files: set[str], copy: Copy, jobs: int, *, near: bool) -> Selection:
    """Run tests on the unmodified copy, and return which of them execute which line.

    They are those of the folder that mirrors the package and, unless ``near``, those that import a changed module and
    those of the folders of all packages that import one.
    """
    modules = {_module(file) for file in files}
    mirror = package.partition("/")[0]
    tests = sorted((ROOT / "tests").glob("*/test_*.py"))
    own, others = [path for path in tests if path.parent.name == mirror], list[Path]()
    if not near:
        sources = (ROOT / PACKAGE).rglob("*.py")
        users = {path.relative_to(ROOT / PACKAGE).parts[0] for path in sources if _imports(path, modules)}
        others = [path for path in tests if path not in own and (path.parent.name in users or _imports(path, modules))]
    every = [str(path.relative_to(ROOT)) for path in (*own, *others)]
    measured = copy.temporary / "coverage"
    settings = copy.temporary / "coveragerc"
    settings.write_text(f"[run]\ndata_file = {measured}\n", encoding="utf-8")
    began = time.monotonic()
    ran = copy.run(
        "-n", str(jobs), f"--cov={PACKAGE}/{package}", f"--cov-config={settings}", "--cov-context=test",
        "--cov-report=", *every, most_s=MEASURED_S,
    )  # fmt: skip
    left_out = [test for test, _ in FAILED.findall(ran.stdout)]
    if " passed" not in ran.stdout or len(left_out) > FAILURES_KEPT:
        print(ran.stdout)
        raise SystemExit("the tests fail without any slip")
    by_line: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    data = CoverageData(str(measured))
    data.read()
    for file in files:
        for line, contexts in data.contexts_by_lineno(str(copy.root / file)).items():
            by_line[file, line].update(dict.fromkeys(name.partition("|")[0] for name in contexts if name))
    seconds = time.monotonic() - began
    print(f"{len(every)} test files, {seconds:.0f} s; left out, as they fail: {left_out}", flush=True)
    order = {file: place for place, file in enumerate(every)}
    return Selection(
        every, left_out,
        {key: sorted(tests, key=lambda test: order.get(test.partition("::")[0], 0)) for key, tests in by_line.items()},
        seconds * jobs,
    )  # fmt: skip


def _module(file: str) -> str:
    return file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(path: Path, modules: set[str]) -> bool:
    """Return whether a file imports one of some modules."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module in modules or any(f"{node.module}.{alias.name}" in modules for alias in node.names):
                return True
        elif isinstance(node, ast.Import) and any(alias.name in modules for alias in node.names):
            return True
    return False


def plant_all(
    package: str,
    drawn: Sequence[tuple[str, Slip]],
    selection: Selection,
    copies: Sequence[Copy],
    kept: Path,
) -> list[Planted]:
    """Plant each slip in a copy that is free; print and keep a line as each is done."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    kept.parent.mkdir(parents=True, exist_ok=True)

    def plant_next(chosen: tuple[str, Slip]) -> Planted:
        copy = free.get()
        try:
            found = plant(package, *chosen, selection, copy)
        finally:
            free.put(copy)
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **asdict(found)}) + "\n")
        print(f"{found.seconds:6.1f} s  {found.result:9} {_shown(found)}  {found.by}", flush=True)
        return found

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(plant_next, drawn))


def plant(package: str, file: str, slip: Slip, selection: Selection, copy: Copy) -> Planted:
    """Run a slip's tests against it."""
    began, tests = time.monotonic(), selection.tests(file, slip)
    text = (copy.root / file).read_text(encoding="utf-8")
    result, by = "caught", "hangs"
    left_out = [f"--deselect={test}" for test in selection.left_out]
    with copy.changed(Mutant(f"{slip.kind}, line {slip.line}", file, text, slip.text, tuple(tests))):
        try:
            ran = copy.run("-n", "0", "-x", *left_out, *tests, most_s=LEAST_S + SLOWER * selection.seconds)
        except TimeoutExpired:
            ran = None
    if ran is not None:
        failed = FAILED.search(ran.stdout)
        result, by = "survived" if ran.returncode == 0 else "broken", ""
        if ran.returncode == 1 and failed and not (failed[2] and BREAKS_ALL.match(failed[2])):
            result, by = "caught", failed[1]
    seconds = time.monotonic() - began
    return Planted(
        package, file, slip.line, slip.kind, slip.before, slip.after, result, by, len(tests), round(seconds, 1)
    )


def _shown(found: Planted) -> str:
    before, after = (" ".join(text.split()) for text in (found.before, found.after))
    return f"{found.file.removeprefix(f'{PACKAGE}/')}:{found.line} {found.kind}: {before[:90]}  ->  {after[:90]}"


def print_rate(package: str, found: Sequence[Planted]) -> None:
    """Print how many slips of a package were caught, and those that survived."""
    counts = Counter(planted.result for planted in found)
    decided = counts["caught"] + counts["survived"]
    share = f"{counts['caught'] / decided:.0%}" if decided else "none"
    print(f"\n{package}: {share} of {decided} slips caught; {counts['broken']} broke imports")
    for planted in found:
        if planted.result == "survived":
            print(f"  {_shown(planted)}  ({planted.tests} tests)")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
