"""Plants slips generated from the code of a package: ``python tests/support/random_mutants.py --package core``.

A number of its slips (``slips.py``) is drawn by a seed. Each is planted in a copy of the checkout, as by
``run_mutants.py``, and meets the tests of the gate that execute its lines, narrow and quick ones first: those of the
folders that mirror the packages and those of the packages that import the modules, or those named by ``--tests``. Which
execute it is measured first, with coverage, on the unmodified copy, once for all packages. Where a fixture that tests
share executes it, these are all tests of the file; where one test alone does, as of an import, all that execute the
module. A slip survives only if all of them pass, and is ``undecided`` where ``--most-s`` leaves some out. A line that
only other processes execute meets the tests of the folder that mirrors its package, or with ``--tests`` none: it is
``unseen``. Modules of libraries that aren't installed are left out, as their tests are skipped. A slip that breaks
imports counts for nothing. The rate is printed with the survivors, and a line for each slip is appended to
``random_mutants.jsonl`` below the user's cache directory. A survivor is no defect: nobody sees what it changes, or a
test is missing.
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
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import accumulate, zip_longest
from pathlib import Path
from queue import SimpleQueue
from subprocess import TimeoutExpired

from coverage import CoverageData

from places import ROOT
from run_mutants import BREAKS_ALL, Copy, Mutant, copy_checkout
from slips import Slip, slips_of

PACKAGE = "src/evopolicygym"
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evopolicygym" / "random_mutants.jsonl"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - (.*))?$", re.MULTILINE)
CAUGHT = {1, 2, 4}
"""Exit codes where a test failed, or could not be collected: some call what they test to make their cases."""
MEASURED_S = 7200.0
"""Seconds for the tests on the unmodified copy."""
LEAST_S, SLOWER = 60.0, 3.0
"""Seconds after which a slip hangs, and how many times as long as without one its tests may take besides."""
LEAST_TEST_S = 0.005
"""Tests that take less are not measured."""
TOOK = re.compile(r"^([\d.]+)s (?:setup|call|teardown) +(\S+?::.+)$", re.MULTILINE)
Chosen = tuple[str, str, Slip]
"""A slip with its package and file."""
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
    """``caught``, ``survived``, ``broken`` (no module could be loaded), ``undecided`` (tests that execute it were left
    out, as they take too long) or ``unseen`` (no test executes it)."""
    by: str
    """The test that failed, or ``hangs``: the gate ends what runs for long, as a failure."""
    tests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Selection:
    """The tests of some packages, and which of them execute a line."""

    by_folder: Mapping[str, Sequence[str]]
    """Files of tests, by their folder, for lines that no test is known to execute."""
    left_out: Sequence[str]
    """Tests that fail without any slip."""
    by_line: Mapping[tuple[str, int], Sequence[str]]
    seconds: Mapping[str, float]
    """How long each test took; those that took no time are missing."""
    breadth: Mapping[str, int]
    """How many of the changed modules' lines each test executes."""
    most_s: float
    """Seconds of tests that a slip meets at most."""

    def tests(self, file: str, slip: Slip) -> tuple[Sequence[str], bool]:
        """Return the tests of a slip, first those that are quick and execute little else, and whether these are all."""
        lines = range(slip.line, slip.last_line + 1)
        found = {test for line in lines for test in self.by_line.get((file, line), ())}
        if len(found) == 1:  # it may be the first that imports the module, or fills a cache that others read
            found.update(*(tests for (other, _), tests in self.by_line.items() if other == file))
        found -= {*self.left_out}
        took = {test: LEAST_TEST_S + self.seconds.get(test, 0.0) for test in found}
        order = sorted(found, key=lambda test: (self.breadth[test] * took[test], test))
        until = accumulate(took[test] for test in order)
        chosen = [test for test, seconds in zip(order, until, strict=True) if seconds <= self.most_s] or order[:1]
        if not chosen:
            return self.by_folder.get(file.removeprefix(f"{PACKAGE}/").partition("/")[0], ()), True
        return chosen, len(chosen) == len(order)

    def expected_s(self, tests: Sequence[str]) -> float:
        """Return how long tests, or files of them, took without a slip."""
        return sum(took for test, took in self.seconds.items() if test in tests or test.partition("::")[0] in tests)


def main(words: Sequence[str]) -> int:
    """Plant slips of each package, and print the rates and the survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--package", action="append", metavar="NAME", help="such as core or analysis/ranking; several")
    parser.add_argument("--count", type=int, default=100, help="slips of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="slips at once")
    parser.add_argument(
        "--tests", action="append", metavar="NAME", help="only this folder, or file without .py; several"
    )
    parser.add_argument("--most-s", type=float, default=60.0, help="seconds of tests that a slip meets at most")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the file that results are appended to")
    asked = parser.parse_args(words)
    packages = asked.package or ["core", "judge", "records", "model_proxy", "analysis/ranking", "environments"]
    if unknown := [name for name in packages if not (ROOT / PACKAGE / name).is_dir()]:
        parser.error(f"no package {', '.join(unknown)} in {PACKAGE}")
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        copies = [copy_checkout(Path(place, str(number))) for number in range(asked.jobs)]
        by_package = [draw(package, asked.count, asked.seed) for package in packages]
        drawn = [chosen for round_ in zip_longest(*by_package) for chosen in round_ if chosen]
        files = {file for _, file, _ in drawn}
        tests = select_tests(packages, files, asked.tests)
        selection = measure(tests, files, copies[0], asked.jobs, asked.most_s, only_seen=bool(asked.tests))
        found = plant_all(drawn, selection, copies, asked.kept)
    for package in packages:
        print_rate(package, [planted for planted in found if planted.package == package])
    return 0


def draw(package: str, count: int, seed: int) -> list[Chosen]:
    """Return some slips of a package's modules."""
    files = [path for path in sorted((ROOT / PACKAGE / package).rglob("*.py")) if not missing_libraries(path)]
    every = [
        (package, str(path.relative_to(ROOT)), slip)
        for path in files
        for slip in slips_of(path.read_text(encoding="utf-8"))
    ]
    chosen = random.Random(f"{seed} {package}").sample(  # noqa: S311 - a choice of slips, and no secret
        every, min(count, len(every))
    )
    print(f"{package}: {len(chosen)} of {len(every)} slips, seed {seed}", flush=True)
    return chosen


def missing_libraries(path: Path) -> set[str]:
    """Return the libraries that a module imports, and that aren't installed."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
    return {name for name in names if find_spec(name) is None}


def select_tests(packages: Sequence[str], files: set[str], names: Sequence[str] | None) -> list[str]:
    """Return the files of tests of these names, or else those that may meet one of the changed modules."""
    tests = sorted((ROOT / "tests").glob("*/test_*.py"))
    if names:
        chosen = [path for path in tests if {path.parent.name, path.stem} & {*names}]
    else:
        modules, sources = {_module(file) for file in files}, (ROOT / PACKAGE).rglob("*.py")
        folders = {package.partition("/")[0] for package in packages}
        folders |= {path.relative_to(ROOT / PACKAGE).parts[0] for path in sources if _imports(path, modules)}
        chosen = [path for path in tests if path.parent.name in folders or _imports(path, modules)]
    return [str(path.relative_to(ROOT)) for path in chosen]


def measure(
    tests: Sequence[str], files: set[str], copy: Copy, jobs: int, most_s: float, *, only_seen: bool
) -> Selection:
    """Run tests on the unmodified copy, and return which of them execute which line, and how long they take."""
    measured = copy.temporary / "coverage"
    settings = copy.temporary / "coveragerc"
    settings.write_text(f"[run]\ndata_file = {measured}\n", encoding="utf-8")
    began = time.monotonic()
    ran = copy.run(
        "-n", str(jobs), f"--cov={PACKAGE}", f"--cov-config={settings}", "--cov-context=test", "--cov-report=",
        "--durations=0", f"--durations-min={LEAST_TEST_S}", *tests, most_s=MEASURED_S,
    )  # fmt: skip
    left_out = [test for test, _ in FAILED.findall(ran.stdout)]
    if " passed" not in ran.stdout or len(left_out) > FAILURES_KEPT:
        print(ran.stdout)
        raise SystemExit("the tests fail without any slip")
    by_line: dict[tuple[str, int], set[str]] = defaultdict(set)
    data = CoverageData(str(measured))
    data.read()
    by_file: dict[str, set[str]] = defaultdict(set)
    for test in {name.rpartition("|")[0] for name in data.measured_contexts() if name}:
        by_file[test.partition("::")[0]].add(test)
    for file in files:
        for line, contexts in data.contexts_by_lineno(str(copy.root / file)).items():
            by_line[file, line].update(_tests_of(contexts, by_file))
    seconds: dict[str, float] = defaultdict(float)
    for took, test in TOOK.findall(ran.stdout):
        seconds[test] += float(took)
    breadth = Counter(test for found in by_line.values() for test in found)
    passed = time.monotonic() - began
    print(f"{len(tests)} test files, {passed:.0f} s; left out, as they fail: {left_out}", flush=True)
    by_folder: dict[str, list[str]] = defaultdict(list)
    for test in tests if not only_seen else ():
        by_folder[Path(test).parent.name].append(test)
    return Selection(
        by_folder, left_out, {key: sorted(found) for key, found in by_line.items()}, seconds, breadth, most_s
    )


def _tests_of(contexts: Iterable[str], by_file: Mapping[str, set[str]]) -> set[str]:
    """Return the tests that execute a line, and those that share the fixture which does."""
    phases = [name.rpartition("|") for name in contexts if name]
    setups = Counter(test.partition("::")[0] for test, _, phase in phases if phase == "setup")
    shared = [by_file[file] for file, count in setups.items() if count == 1]
    return {test for test, _, _ in phases}.union(*shared)


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
    drawn: Sequence[Chosen],
    selection: Selection,
    copies: Sequence[Copy],
    kept: Path,
) -> list[Planted]:
    """Plant each slip in a copy that is free; print and keep a line as each is done."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    kept.parent.mkdir(parents=True, exist_ok=True)

    def plant_next(chosen: Chosen) -> Planted:
        copy = free.get()
        try:
            found = plant(*chosen, selection, copy)
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
    began = time.monotonic()
    tests, are_all = selection.tests(file, slip)
    if not tests:
        return Planted(package, file, slip.line, slip.kind, slip.before, slip.after, "unseen", "", 0, 0.0)
    text = (copy.root / file).read_text(encoding="utf-8")
    result, by = "caught", "hangs"
    left_out = [f"--deselect={test}" for test in selection.left_out]
    with copy.changed(Mutant(f"{slip.kind}, line {slip.line}", file, text, slip.text, tuple(tests))):
        try:
            ran = copy.run("-n", "0", "-x", *left_out, *tests, most_s=LEAST_S + SLOWER * selection.expected_s(tests))
        except TimeoutExpired:
            ran = None
    if ran is not None:
        failed = FAILED.search(ran.stdout)
        result, by = ("survived" if are_all else "undecided") if ran.returncode == 0 else "broken", ""
        if ran.returncode in CAUGHT and failed and not (failed[2] and BREAKS_ALL.match(failed[2])):
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
    print(
        f"\n{package}: {share} of {decided} slips caught; {counts['broken']} broke imports, "
        f"{counts['undecided']} undecided, {counts['unseen']} unseen"
    )
    for planted in found:
        if planted.result == "survived":
            print(f"  {_shown(planted)}  ({planted.tests} tests)")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
