"""Plants defects one at a time and checks that the gate catches each: ``python tests/support/run_mutants.py``.

``tests/mutants.toml`` lists them: a text that occurs exactly once in a file, its replacement, and the tests of the gate
that must fail then. Each mutant is applied to a copy of the checkout with an environment of its own, which imports
the package from the copy, in subprocesses and in the ``evopolicygym`` program too. Exit code 1: a mutant survived, or
its text no longer occurs exactly once, or the tests fail on the unmodified copy.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

from places import ROOT

MUTANTS = ROOT / "tests" / "mutants.toml"
GATE = "not nightly and not tools"
NOT_COPIED = "results/"
"""Shipped records, 22 MB, which no test named in the list reads: the copies link to them."""
MOST_S = 900.0
"""Seconds after which a mutant counts as one that hangs."""
FAILED = re.compile(r"^FAILED (\S+?::.+?)(?: - (.*))?$", re.MULTILINE)
BREAKS_ALL = re.compile(r"(?:Name|Import|ModuleNotFound|Syntax|Indentation|UnboundLocal)Error")
"""A mutant that no module could be loaded with shows nothing about the tests."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted defect."""

    name: str
    """The promise that it breaks."""
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def problem(self) -> str:
        """Return why it can't be planted; empty where it can."""
        path = ROOT / self.file
        if not path.is_file():
            return "there is no such file"
        text = path.read_text(encoding="utf-8")
        count = text.count(self.find)
        if count != 1:
            return f"its text occurs {count} times, not once"
        if path.suffix == ".py":
            try:
                compile(text.replace(self.find, self.replace), self.file, "exec")
            except SyntaxError as error:
                return f"with its replacement the file can't be compiled: {error}"
        missing = [test for test in self.tests if not (ROOT / test.partition("::")[0]).is_file()]
        return f"there is no {missing[0]}" if missing else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mutant."""

    mutant: Mutant
    caught_by: str
    """The test that failed; empty where none did."""
    detail: str
    seconds: float

    @property
    def result(self) -> str:
        """The outcome in a few words."""
        return f"caught by {self.caught_by}" if self.caught_by else f"SURVIVED: {self.detail}"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the checkout, with an environment that imports the package from it."""

    root: Path
    temporary: Path

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.root / ".venv" / "bin" / "python"

    def run(self, *options: str, most_s: float = MOST_S) -> "subprocess.CompletedProcess[str]":
        """Run tests of the gate in it; raise ``TimeoutExpired`` after some seconds."""
        base = self.temporary / "pytest"
        shutil.rmtree(base, ignore_errors=True)
        words = ["-m", "pytest", "-m", GATE, "-q", "-rfE", "-p", "no:cacheprovider", f"--basetemp={base}", *options]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.python, *words],
            cwd=self.root, env={**kept, "COLUMNS": "400"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, timeout=most_s,
        )  # fmt: skip

    def write(self, file: str, text: str) -> None:
        """Replace a file's text; its bytecode goes too, as that is known by the time in seconds and the size."""
        (self.root / file).write_text(text, encoding="utf-8")
        if file.endswith(".py"):
            Path(cache_from_source(str(self.root / file))).unlink(missing_ok=True)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Plant a mutant, and remove it again."""
        text = (self.root / mutant.file).read_text(encoding="utf-8")
        self.write(mutant.file, text.replace(mutant.find, mutant.replace))
        try:
            yield
        finally:
            self.write(mutant.file, text)


def main(words: Sequence[str]) -> int:
    """Plant the mutants and print what came of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--jobs", type=int, default=2, help="mutants at once")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="those whose names hold this text")
    parser.add_argument("--check", action="store_true", help="only check that each can be planted")
    asked = parser.parse_args(words)
    every = read_mutants(MUTANTS)
    mutants = [mutant for mutant in every if not asked.only or any(text in mutant.name for text in asked.only)]
    problems = [f"{mutant.name} ({mutant.file}): {why}" for mutant in mutants if (why := mutant.problem())]
    if problems or not mutants:
        print("\n".join(problems) or f"no mutant is named so; there are: {', '.join(mutant.name for mutant in every)}")
        return 1
    if asked.check:
        print(f"{len(mutants)} mutants can be planted")
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        copies = [copy_checkout(Path(place, str(number))) for number in range(min(asked.jobs, len(mutants)))]
        if not passes(copies[0], mutants, len(copies)):
            return 1
        outcomes = plant_all(mutants, copies)
    print_table(outcomes)
    survived = [outcome.mutant.name for outcome in outcomes if not outcome.caught_by]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} caught in {time.monotonic() - began:.0f} s")
    return int(bool(survived))


def read_mutants(path: Path) -> list[Mutant]:
    """Return the mutants of a list."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]


def copy_checkout(place: Path) -> Copy:
    """Copy the files that git knows or would add, and make an environment that imports the package from the copy."""
    root = place / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the developer's git
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith(NOT_COPIED):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    (root / NOT_COPIED.rstrip("/")).symlink_to(ROOT / NOT_COPIED)
    environment = root / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    copy = Copy(root, place)
    ours, theirs = sysconfig.get_paths()["purelib"], sysconfig.get_path("purelib", vars={"base": str(environment)})
    lines = [str(root / "src"), f"import site; site.addsitedir({ours!r})"]
    Path(theirs, "mutants.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    script = Path(sys.executable).with_name("evopolicygym")
    _, _, body = script.read_text(encoding="utf-8").partition("\n")
    program = copy.python.with_name("evopolicygym")
    program.write_text(f"#!{copy.python}\n{body}", encoding="utf-8")
    program.chmod(0o755)
    look = "import evopolicygym; print(evopolicygym.__file__)"
    found = subprocess.run([copy.python, "-P", "-c", look], cwd="/", capture_output=True, text=True, check=True).stdout
    if not found.startswith(str(root)):
        raise SystemExit(f"the copy would test {found.strip()}, not {root}")
    return copy


def passes(copy: Copy, mutants: Sequence[Mutant], jobs: int) -> bool:
    """Return whether the tests pass on the unmodified copy; print why not."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    print(f"{len(tests)} selections of tests on the unmodified copy", flush=True)
    ran = copy.run("-n", str(jobs), *tests)
    if ran.returncode:
        print(ran.stdout)
        print("the tests fail without any mutant")
    return ran.returncode == 0


def plant_all(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> list[Outcome]:
    """Plant each mutant in a copy that is free, and print a line as each is done."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def plant_next(mutant: Mutant) -> Outcome:
        copy = free.get()
        try:
            outcome = plant(mutant, copy)
        finally:
            free.put(copy)
        print(f"{outcome.seconds:5.1f} s  {mutant.name}: {outcome.result}", flush=True)
        return outcome

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(plant_next, mutants))


def plant(mutant: Mutant, copy: Copy) -> Outcome:
    """Run a mutant's tests against it; only a test that fails has caught it."""
    began = time.monotonic()
    with copy.changed(mutant):
        try:
            ran = copy.run("-n", "0", "-x", *mutant.tests)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, "", f"still running after {MOST_S:.0f} s", time.monotonic() - began)
    seconds = time.monotonic() - began
    failed = FAILED.search(ran.stdout)
    if ran.returncode != 1 or failed is None:
        last = ran.stdout.strip().rpartition("\n")[2]
        return Outcome(mutant, "", f"exit code {ran.returncode}, {last}", seconds)
    test, why = failed.groups()
    if why and BREAKS_ALL.match(why):
        return Outcome(mutant, "", f"it breaks everything: {why}", seconds)
    return Outcome(mutant, test, "", seconds)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print a line for each mutant: promise, file, and what came of it."""
    rows = [(outcome.mutant.name, outcome.mutant.file, outcome.result) for outcome in outcomes]
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    print()
    for row in rows:
        print("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[2]]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
