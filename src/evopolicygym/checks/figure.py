"""The check of a figure: it is drawn of a run and of none, in every format, and the same each time."""

from collections.abc import Iterator

from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.drawing.figure import FIGURES, Drawing
from evopolicygym.analysis.report_data import ReportData, find
from evopolicygym.analysis.results import load_results
from evopolicygym.checks.played_run import Broken, attempt, played_run
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UnknownName


def check(name: str) -> Iterator[CheckResult]:
    """Check the figure with a name; yield its findings. It ends early if the figure can't be loaded."""
    if ":" not in name and name not in FIGURES.names():
        raise UnknownName(FIGURES.kind, name, FIGURES.names())
    loaded = attempt("loads", lambda: _load(name))
    yield loaded
    if not loaded.ok:
        return
    drawing: Drawing = FIGURES.load(name)
    with played_run() as root:
        findings = find(load_results([root]), diagnostics=drawing.needs)
        yield attempt("draws a run", lambda: _draw(drawing, findings))
    yield attempt("draws none", lambda: _draw(drawing, ReportData()))


def _load(name: str) -> str:
    drawing = FIGURES.load(name)
    if not isinstance(drawing, Drawing):
        raise Broken(f"expected a Drawing, got a {type(drawing).__name__}")
    for diagnostic in drawing.needs:
        DIAGNOSTICS.load(diagnostic)
    if empty := [field for field in ("title", "caption", "method") if not getattr(drawing, field)]:
        raise Broken(f"these texts are empty: {', '.join(empty)}")
    return drawing.title


def _draw(drawing: Drawing, findings: ReportData) -> str:
    from evopolicygym.analysis.drawing.canvas import FORMATS, figure_bytes

    pictures = [[figure_bytes(drawing.draw(findings), form) for form in FORMATS] for _ in range(2)]
    if different := [form for form, first, second in zip(FORMATS, *pictures, strict=True) if first != second]:
        raise Broken(f"drawn twice, it has other bytes: {', '.join(different)}")
    return f"{', '.join(FORMATS)}, the same each time"
