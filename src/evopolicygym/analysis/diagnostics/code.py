"""What the policies are like as programs, and what was written of them: counts over each submission's whole bundle.

Counting needs no run of anything: each Python file is parsed (``analysis/source.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import PurePosixPath

from evopolicygym.analysis.diagnostic import Diagnostic, mean
from evopolicygym.analysis.lineage.program import checkpoint_program, starter
from evopolicygym.analysis.source import Bundle, bundle_of
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a bundle."""

    files: int
    """Data included."""
    python_files: int
    data_bytes: int
    """The bytes of files that are not code."""
    lines: int
    """The lines of Python that are not blank."""
    functions: int
    """Methods and lambdas included."""
    classes: int
    branches: int
    imports: int
    """Distinct modules, those of the bundle itself left out."""
    unparsable: int
    """Python files of which only files and lines are counted."""


@dataclass(frozen=True, slots=True)
class Code:
    """One run's bundles."""

    submissions: tuple[Counts | None, ...]
    """The counts by submission; None if the checkpoint is missing."""
    selected: Counts | None
    """The counts of the selected checkpoint."""
    lines_added: int | None = None
    """Lines of the selected checkpoint's code that the starter policy lacks, comments and empty lines left out."""


def count(bundle: Bundle) -> Counts:
    """Return the counts of a bundle."""
    sources = [file.source for file in bundle.values() if file.source]
    own = {PurePosixPath(path).parts[0].removesuffix(".py") for path in bundle}
    return Counts(
        files=len(bundle),
        python_files=len(sources),
        data_bytes=sum(file.size for file in bundle.values() if not file.is_code),
        lines=sum(source.lines for source in sources),
        functions=sum(source.functions for source in sources),
        classes=sum(source.classes for source in sources),
        branches=sum(source.branches for source in sources),
        imports=len(frozenset[str]().union(*(source.imports for source in sources)) - own),
        unparsable=sum(not source.parsed for source in sources),
    )


def measure(record: RunRecord) -> Code:
    """Return the counts of each bundle of a run."""
    counts: dict[str, Counts | None] = {}
    names = [submission.charged.checkpoint for submission in record.state.submissions]
    for name in dict.fromkeys(names):
        bundle = bundle_of(record, name)
        counts[name] = None if bundle is None else count(bundle)
    selected = record.state.selected
    return Code(
        submissions=tuple(counts[name] for name in names),
        selected=counts[selected.checkpoint] if selected else None,
        lines_added=_lines_added(record, selected.checkpoint) if selected else None,
    )


def _lines_added(record: RunRecord, checkpoint: str) -> int | None:
    program = checkpoint_program(record, checkpoint)
    return (program.code.lines - starter().code.lines).total() if program else None


def _names() -> tuple[str, ...]:
    return tuple(field.name.replace("_", " ") for field in fields(Counts))


def table(code: Code) -> Table:
    """Return the counts of each submission."""
    nothing = (None,) * len(fields(Counts))
    rows = tuple((index, *(astuple(counts) if counts else nothing)) for index, counts in enumerate(code.submissions))
    return table_of("code", ("submission", *_names()), rows)


def summary(runs: Sequence[Code]) -> Mapping[str, Cell]:
    """Return means over runs of what is counted in the selected bundle, and of its lines that the starter lacks."""
    counted = [astuple(run.selected) for run in runs if run.selected]
    means = [mean(column) for column in zip(*counted, strict=True)] or [None] * len(fields(Counts))
    return {**dict(zip(_names(), means, strict=True)), "lines added": mean(run.lines_added for run in runs)}


DIAGNOSTIC = Diagnostic(measure, table, summary)
