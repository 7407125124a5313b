"""Compare the numbers of the docs with what their commands print: ``python docs/measured_numbers.py``.

    make numbers                                     all that take less than a minute
    make numbers PAGE=docs/measure/leaderboard.md    of one page
    python docs/measured_numbers.py --all            those that take longer too (hours)
    python docs/measured_numbers.py --list

A comment stands before the table, the paragraph or the fence whose numbers a command prints::

    <!-- numbers: python benchmarks/power.py --suites 200; takes 5 min; error 0.04 -->

Each row of a table must have its numbers in one line of the output, in their order, together with the words of its
cells, units aside; each number of other text must be anywhere in the output. A number is the same if it is the printed
one, rounded as on the page. What may follow the command:

- ``sampled``: numbers with ± may differ by four standard errors, those of the page and of the output together;
- ``error N``: the same for numbers without ±, whose standard error is N;
- ``takes N min``: it takes so long, and is left out without ``--all``;
- ``machine``: it depends on the machine, or needs what most machines lack; it isn't run.

In a command, ``DIR`` is a new directory. Tables that ``docs/tables.py`` writes are compared too. The exit code is 1 if
a number differs or a command fails.
"""

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from build_site import FENCE
from tables import TABLE, TABLES

ROOT = Path(__file__).parents[1]
MEASURED = sorted((ROOT / "docs" / "measure").glob("*.md"))
"""Pages on which each table of numbers has a command."""
PAGES = sorted((ROOT / "docs").rglob("*.md"))
"""Pages that may have such tables."""
MARK = re.compile(r"^<!-- numbers: (?P<command>[^;\n]+)(?P<marks>(?:; [^;\n]+)*) -->\n", re.MULTILINE)
ROWS = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
TAKES, ERROR = re.compile(r"takes ([\d.]+) min"), re.compile(r"error ([\d.]+)")
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")
NUMERIC_CELL = re.compile(r"(?=.*\d)(?:[-+±%()\[\],.<>=≤≥\d\s]|\b(?:to|and|s|ms|MB|MiB|GB|min|h)\b)+")
"""A cell of numbers, signs and units alone."""
LINK, CODE, COMMENT = re.compile(r"\[([^\]]*)\]\([^)]*\)"), re.compile(r"`[^`]*`"), re.compile(r"<!--.*?-->")
FACTOR = re.compile(r"\bx(?=\d)")
"""What stands before a factor, such as x1.57."""
WORD = re.compile(r"[^\W\d_]+")
APART = 4.0
"""Standard errors by which sampled numbers may differ: of some thousand numbers, hardly one does by chance."""
COLUMNS = "240"
"""The width of a terminal in which no table wraps."""


class Outcome(StrEnum):
    """What came of a block."""

    SAME = "same"
    DIFFERENT = "different"
    FAILED = "failed"
    """Its command failed."""
    LONG = "takes long"
    """It wasn't run."""
    MACHINE = "machine"
    """It depends on the machine."""


class Figure(NamedTuple):
    """A number of a text."""

    text: str
    error: float | None = None
    """The standard error behind it."""

    @property
    def value(self) -> float:
        """The number."""
        return float(self.text.replace(",", ""))

    @property
    def digit(self) -> float:
        """What its last digit counts."""
        mantissa, _, exponent = self.text.partition("e")
        return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))

    def agrees(self, printed: "Figure", error: float | None, *, sampled: bool) -> bool:
        """Return whether a printed number is this one, rounded, or within what sampling explains."""
        apart = abs(self.value - printed.value)
        own, other = (self.error, printed.error) if self.error is not None or error is None else (error, error)
        if own is not None and other is not None and (sampled or error is not None):
            return apart <= APART * math.hypot(own, other) + (self.digit + printed.digit) / 2
        errors_apart = abs((own or 0.0) - (other or 0.0)) if own is not None and other is not None else 0.0
        return max(apart, errors_apart) <= self.digit / 2 * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Block:
    """A table, a paragraph or a fence, and the command that prints its numbers."""

    page: str
    line: int
    command: str
    text: str
    minutes: float = 0.0
    is_sampled: bool = False
    error: float | None = None
    depends_on_machine: bool = False
    is_generated: bool = False
    """Whether ``docs/tables.py`` writes it; ``command`` is then the table's name."""

    @property
    def place(self) -> str:
        """The page and the line."""
        return f"{self.page}:{self.line}"


class InvalidMark(ValueError):
    """A comment that is not understood."""


def blocks(text: str, page: str = "") -> Iterator[Block]:
    """Yield the blocks of a page that have a command, in their order."""
    found = [(match.start(), _block(match, text, page)) for match in MARK.finditer(text)]
    for match in TABLE.finditer(text):
        block = Block(page, _line(text, match.start()), match[2], match[0], is_generated=True)
        found.append((match.start(), block))
    yield from (block for _, block in sorted(found, key=lambda pair: pair[0]))


def _block(match: re.Match[str], text: str, page: str) -> Block:
    marks = [mark.strip() for mark in match["marks"].split(";")[1:]]
    takes, error = (
        next((float(m[1]) for mark in marks if (m := form.fullmatch(mark))), None) for form in (TAKES, ERROR)
    )
    others = {mark for mark in marks if not TAKES.fullmatch(mark) and not ERROR.fullmatch(mark)}
    if unknown := others - {"sampled", "machine"}:
        expected = "sampled, machine, error N or takes N min"
        raise InvalidMark(
            f"{page}:{_line(text, match.start())}: Invalid mark: expected {expected}, got {unknown.pop()}."
        )
    return Block(
        page, _line(text, match.start()), match["command"].strip(), _after(text, match.end()), takes or 0.0,
        is_sampled="sampled" in others, error=error, depends_on_machine="machine" in others,
    )  # fmt: skip


def _after(text: str, start: int) -> str:
    """Return the fence, or the lines up to an empty one."""
    fence = FENCE.match(text, start)
    return fence[0] if fence else text[start:].partition("\n\n")[0] + "\n"


def tables_without_command(text: str) -> Iterator[int]:
    """Yield where tables of numbers begin that no command prints."""
    covered = [(match.start(), match.end()) for match in TABLE.finditer(text)]
    covered += [(match.start(), match.end() + len(_after(text, match.end()))) for match in MARK.finditer(text)]
    for table in ROWS.finditer(text):
        if not any(start <= table.start() < end for start, end in covered) and _has_numbers(table[0]):
            yield table.start()


def _has_numbers(table: str) -> bool:
    cells = [cell for row in _body(table) for cell in _cells(row)[1:]]
    return any(NUMERIC_CELL.fullmatch(cell) for cell in cells)


def differences(block: Block, output: str) -> list[str]:
    """Return what of a block the output of its command doesn't have."""
    if not block.text.startswith("|"):
        return _missing_numbers(block, output)
    lines = [(words_of(line), figures_of(line)) for line in output.splitlines()]
    return [problem for row in _body(block.text) if (problem := _missing_row(block, row, lines))]


def _missing_numbers(block: Block, output: str) -> list[str]:
    printed = figures_of(output)
    return [
        f"{figure.text} is not printed"
        for figure in figures_of(block.text)
        if not any(figure.agrees(other, block.error, sampled=block.is_sampled) for other in printed)
    ]


def _missing_row(block: Block, row: str, lines: Sequence[tuple[frozenset[str], list[Figure]]]) -> str:
    """Return what the output has in place of a row; empty if it has the row."""
    words = frozenset(word for cell in _cells(row) if not NUMERIC_CELL.fullmatch(cell) for word in words_of(cell))
    figures = figures_of(row)
    alike = [printed for found, printed in lines if words <= found and printed]
    if not figures or any(_agree(block, figures, printed) for printed in alike):
        return ""
    shown = " | ".join(_cells(row))
    if not alike:
        return f"not printed: {shown}"
    nearest = max(alike, key=lambda printed: sum(any(_agree(block, [f], [p]) for p in printed) for f in figures))
    return f"on the page: {shown}; printed: {' '.join(figure.text for figure in nearest)}"


def _agree(block: Block, figures: Sequence[Figure], printed: Sequence[Figure]) -> bool:
    """Return whether all numbers are among the printed ones, in the same order."""
    rest = iter(printed)
    return all(any(figure.agrees(other, block.error, sampled=block.is_sampled) for other in rest) for figure in figures)


def figures_of(text: str) -> list[Figure]:
    """Return the numbers of a text, each with the standard error behind ±; those in code and in links are left out."""
    plain = _plain(text)
    found: list[Figure] = []
    end = 0
    for match in NUMBER.finditer(plain):
        if plain[end : match.start()].strip() == "±" and found:
            found[-1] = Figure(found[-1].text, Figure(match[0]).value)
        else:
            found.append(Figure(match[0]))
        end = match.end()
    return found


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, numbers aside."""
    return frozenset(word.lower() for word in WORD.findall(LINK.sub(r"\1", text)))


def _plain(text: str) -> str:
    shown = CODE.sub(" ", LINK.sub(r"\1", COMMENT.sub(" ", text)))
    return FACTOR.sub(" ", shown.replace("\N{MINUS SIGN}", "-").replace("\\", ""))


def _body(table: str) -> list[str]:
    return table.strip().splitlines()[2:]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _line(text: str, offset: int) -> int:
    return text[:offset].count("\n") + 1


class Commands:
    """Runs commands, each once."""

    def __init__(self, below: Path) -> None:
        self._below = below
        self._outputs: dict[str, tuple[int, str, float]] = {}

    def output(self, command: str) -> tuple[int, str, float]:
        """Return a command's exit code, what it printed, and the seconds that it took."""
        if command not in self._outputs:
            began = perf_counter()
            done = subprocess.run(
                list(self._words(command)), cwd=ROOT, capture_output=True, text=True, check=False,
                env=os.environ | {"COLUMNS": COLUMNS, "XDG_STATE_HOME": str(self._below / "state")},
            )  # fmt: skip
            printed = done.stdout if done.returncode == 0 else done.stdout + done.stderr
            self._outputs[command] = done.returncode, printed, perf_counter() - began
        return self._outputs[command]

    def _words(self, command: str) -> Iterator[str]:
        first, *others = shlex.split(command)
        yield from {"python": [sys.executable], "evopolicygym": [sys.executable, "-m", "evopolicygym"]}.get(
            first, [first]
        )
        for word in others:
            if word == "DIR":
                yield tempfile.mkdtemp(dir=self._below)
            elif "*" in word:
                yield from sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(word))
            else:
                yield word


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a block."""

    block: Block
    outcome: Outcome
    differences: Sequence[str] = ()
    seconds: float = 0.0


def compare(block: Block, commands: Commands, *, with_long: bool) -> Result:
    """Return whether a block's numbers are what its command prints."""
    if block.is_generated:
        expected = TABLES[block.command]()
        written = block.text.partition("\n")[2].removesuffix("<!-- end of table -->\n")
        return (
            Result(block, Outcome.SAME)
            if written == expected
            else Result(block, Outcome.DIFFERENT, ("stale; run make docs",))
        )
    if block.depends_on_machine:
        return Result(block, Outcome.MACHINE)
    if block.minutes and not with_long:
        return Result(block, Outcome.LONG)
    code, output, seconds = commands.output(block.command)
    if code:
        return Result(block, Outcome.FAILED, (f"exit code {code}: {output.strip()[-500:]}",), seconds)
    found = tuple(differences(block, output))
    return Result(block, Outcome.DIFFERENT if found else Outcome.SAME, found, seconds)


def _document(result: Result) -> dict[str, object]:
    block = result.block
    return {
        "page": block.page, "line": block.line, "command": block.command, "minutes": block.minutes,
        "generated": block.is_generated, "outcome": result.outcome.value, "seconds": round(result.seconds, 1),
        "differences": list(result.differences),
    }  # fmt: skip


def _marks(block: Block) -> str:
    marks = ["generated"] * block.is_generated + ["sampled"] * block.is_sampled + ["machine"] * block.depends_on_machine
    marks += [f"error {block.error:g}"] if block.error is not None else []
    marks += [f"takes {block.minutes:g} min"] if block.minutes else []
    return f"  ({', '.join(marks)})" if marks else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands of some pages and print what differs; return 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="default: all of the docs")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    parser.add_argument("--only", default="", metavar="TEXT", help="only commands that contain the text")
    parser.add_argument("--all", action="store_true", help="run what takes longer than a minute too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    chosen = [
        block
        for page in options.pages or PAGES
        for block in blocks(page.read_text(encoding="utf-8"), _relative(page))
        if options.only in block.command
    ]
    if options.list:
        sys.stdout.writelines(f"{block.place}  {block.command}{_marks(block)}\n" for block in chosen)
        return 0
    results = []
    with tempfile.TemporaryDirectory() as below:
        commands = Commands(Path(below))
        for block in chosen:
            results.append(compare(block, commands, with_long=options.all))
            if not options.json:
                _print(results[-1])
    if options.json:
        sys.stdout.write(json.dumps([_document(result) for result in results], indent=2) + "\n")
    else:
        counts = {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
        print(", ".join(f"{outcome.value} {count}" for outcome, count in counts.items()))
    return int(any(result.outcome in {Outcome.DIFFERENT, Outcome.FAILED} for result in results))


def _print(result: Result) -> None:
    print(f"{result.block.place}: {result.outcome.value}: {result.block.command}", flush=True)
    for difference in result.differences:
        print(f"    {difference}")


def _relative(page: Path) -> str:
    path = page.resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(page)


if __name__ == "__main__":
    sys.exit(main())
