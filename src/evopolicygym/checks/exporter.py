"""The check of an exporter: it writes a run into complete files, the same ones again, and none where it fails."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from evopolicygym.checks.played_run import Broken, attempt, played_run
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.text import counted
from evopolicygym.export.exporters import EXPORTERS, BaseExporter, export
from evopolicygym.records.checked import CheckedRun, open_run


def check(name: str) -> Iterator[CheckResult]:
    """Check the exporter with a name; yield its findings. It ends early if the exporter can't be loaded."""
    if ":" not in name and name not in EXPORTERS.names():
        raise UnknownName(EXPORTERS.kind, name, EXPORTERS.names())
    loaded = attempt("loads", lambda: _load(name))
    yield loaded
    if not loaded.ok:
        return
    with played_run() as root:
        run, out = open_run(root), root.parent / "export"
        written = attempt("writes", lambda: _write(name, run, out))
        yield written
        if written.ok:
            yield attempt("replaces", lambda: _replace(name, run, out))
        yield attempt("gives up", lambda: _give_up(name, run, root.parent / "none"))


def _load(name: str) -> str:
    exporter = EXPORTERS.load(name)
    if not (isinstance(exporter, type) and issubclass(exporter, BaseExporter)):
        raise Broken("expected a class derived from BaseExporter")
    return f"default tables: {', '.join(exporter.tables) or 'none, it writes whole runs'}"


def _write(name: str, run: CheckedRun, out: Path) -> str:
    result = export(name, [run], out)
    written = result.written
    if not written and not result.notes:
        raise Broken("finish() returned no files, and no note says why")
    if missing := [str(file.path) for file in written if not file.path.exists()]:
        raise Broken(f"finish() returned paths that don't exist: {', '.join(missing)}")
    if parts := [path.name for path in _files(out) if path.suffix == ".part"]:
        raise Broken(f"incomplete files are left: {', '.join(parts)}")
    return ", ".join(f"{file.path.name}: {counted(file.rows, 'row')}" for file in written) or " ".join(result.notes)


def _replace(name: str, run: CheckedRun, out: Path) -> str:
    before = _files(out)
    export(name, [run], out, force=True)
    if different := before ^ _files(out):
        raise Broken(f"a second export, with --force, has other files: {', '.join(map(str, sorted(different)))}")
    return f"{counted(len(before), 'file')} again, with --force"


class _DamagedRun(Exception):
    pass


def _give_up(name: str, run: CheckedRun, out: Path) -> str:
    """Let an export fail after its first run."""

    def fail(runs: Iterable[CheckedRun]) -> Iterator[CheckedRun]:
        yield from runs
        raise _DamagedRun

    try:
        export(name, [run], out, follow=fail)
    except _DamagedRun:
        if left := _files(out):
            raise Broken(f"an export that fails leaves files: {', '.join(map(str, sorted(left)))}") from None
    return "an export that fails leaves no file"


def _files(directory: Path) -> set[Path]:
    return {path.relative_to(directory) for path in directory.rglob("*") if path.is_file()}
