"""How two texts, or the files of two policies, differ: line by line, within a budget that many files share."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

CONTEXT = 3
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(slots=True)
class DiffBudget:
    """Remaining budget of comparisons for all files of one document."""

    steps: int = 1_000_000
    """A second or less."""
    bytes: int = 4 << 20
    """Bytes compared, of both sides."""
    rows: int = 12_000
    """Lines that the document holds."""


class BoundedMatcher(difflib.SequenceMatcher[str]):
    """Groups of changed lines as difflib's, from shared lines that take no more steps than are left."""

    def __init__(self, before: Sequence[str], after: Sequence[str], budget: DiffBudget) -> None:
        super().__init__(None, "", "")
        self.a, self.b = before, after
        begin, end = _common(before, after)
        inner = before[begin : len(before) - end], after[begin : len(after) - end]
        pairs = _shared(*_numbered(*inner), budget)
        self.is_whole = pairs is not None
        """Whether all lines were compared."""
        blocks = [difflib.Match(0, 0, begin)]
        for i, j in pairs or ():
            last = blocks[-1]
            if (i + begin, j + begin) == (last.a + last.size, last.b + last.size):
                blocks[-1] = last._replace(size=last.size + 1)
            else:
                blocks.append(difflib.Match(i + begin, j + begin, 1))
        blocks.append(difflib.Match(len(before) - end, len(after) - end, end))
        self._blocks = [*blocks, difflib.Match(len(before), len(after), 0)]

    def get_matching_blocks(self) -> list[difflib.Match]:
        """Return the shared lines, in order; the last is empty, as difflib's callers expect."""
        return self._blocks


def _common(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Return how many lines two texts share at their beginning, and of the rest at their end."""
    most = min(len(before), len(after))
    begin = next((i for i in range(most) if before[i] != after[i]), most)
    most -= begin
    end = next((i for i in range(most) if before[-1 - i] != after[-1 - i]), most)
    return begin, end


def _numbered(before: Sequence[str], after: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return texts with a number for each different line: comparing long lines takes no time then."""
    numbers: dict[str, int] = {}
    numbered = [[numbers.setdefault(line, len(numbers)) for line in text] for text in (before, after)]
    return numbered[0], numbered[1]


def _shared(before: Sequence[int], after: Sequence[int], budget: DiffBudget) -> list[tuple[int, int]] | None:
    """Return the places of a longest sequence of shared lines; None where no more steps are left."""
    count, other = len(before), len(after)
    farthest, ends = {1: 0}, list[dict[int, int]]()  # by diagonal, how far down ``before`` so many differences lead
    for differences in range(count + other + 1):
        row: dict[int, int] = {}
        for diagonal in range(-differences, differences + 1, 2):
            down = diagonal == -differences or (
                diagonal != differences and farthest.get(diagonal - 1, -1) < farthest.get(diagonal + 1, -1)
            )
            i = farthest[diagonal + 1] if down else farthest[diagonal - 1] + 1
            start, j = i, i - diagonal
            while i < count and j < other and before[i] == after[j]:
                i, j = i + 1, j + 1
            row[diagonal] = i
            budget.steps -= 1 + i - start
            if i >= count and j >= other:
                return _path(ends, diagonal, i)
        if budget.steps < 0:
            return None
        ends.append(row)
        farthest = row
    raise AssertionError("Removing and adding all lines leads from any text to any other.")


def _path(ends: Sequence[dict[int, int]], diagonal: int, i: int) -> list[tuple[int, int]]:
    """Return the shared lines on the way to a diagonal's end, from where each number of differences had led."""
    shared: list[tuple[int, int]] = []
    for differences in range(len(ends), 0, -1):
        before = ends[differences - 1]
        down = diagonal == -differences or (
            diagonal != differences and before.get(diagonal - 1, -1) < before.get(diagonal + 1, -1)
        )
        came_from = diagonal + 1 if down else diagonal - 1
        start = before[came_from] + (0 if down else 1)
        shared += ((at, at - diagonal) for at in range(i - 1, start - 1, -1))
        diagonal, i = came_from, before[came_from]
    shared += ((at, at) for at in range(i - 1, -1, -1))
    return shared[::-1]


def text_of(content: bytes) -> str | None:
    """Return a file's content as text; None of what isn't UTF-8, or has null characters."""
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def unified_diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Return how files differ as a unified diff, as Git writes it; of what isn't text or is too large, that it does."""
    budget = DiffBudget()
    paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return "".join(part for path in paths for part in _file_diff(path, before.get(path), after.get(path), budget))


def _file_diff(path: str, before: bytes | None, after: bytes | None, budget: DiffBudget) -> Iterator[str]:
    yield f"diff --git a/{path} b/{path}\n"
    if before is None or after is None:
        yield f"{'new' if before is None else 'deleted'} file mode 100644\n"
    budget.bytes -= len(before or b"") + len(after or b"")
    texts = [text_of(content or b"") for content in (before, after)]
    old, new = (None if text is None else _LINE.findall(text) for text in texts)
    if budget.bytes < 0 or old is None or new is None:
        yield f"Binary files a/{path} and b/{path} differ\n"
        return
    if old or new:
        yield f"--- {'/dev/null' if before is None else f'a/{path}'}\n"
        yield f"+++ {'/dev/null' if after is None else f'b/{path}'}\n"
    matcher = BoundedMatcher(old, new, budget)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@\n"
        for what, i1, i2, j1, j2 in group:
            signed = [(" ", old[i1:i2])] if what == "equal" else [("-", old[i1:i2]), ("+", new[j1:j2])]
            yield from (f"{sign}{_ended(line)}" for sign, lines in signed for line in lines)


def _range(start: int, end: int) -> str:
    """Return the lines of a hunk: its first, counted from 1, and how many."""
    return f"{start + 1 if end > start else start},{end - start}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
