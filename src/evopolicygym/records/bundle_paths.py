"""Which paths a bundle may have: checked as a whole before anything is written, and before a bundle is made.

A file belongs to a listed run, or is the ``experiment.json`` or ``revealed.json`` of a listed experiment. Depth, length
and the number of directories are bounded, as an empty file with a long path costs its sender almost nothing.
"""

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from unicodedata import normalize

from evopolicygym.core.errors import RecordError
from evopolicygym.core.text import printable
from evopolicygym.records.experiment import REVEALED_FILE
from evopolicygym.records.paths import EXPERIMENT
from evopolicygym.records.reader import EXPERIMENT_FILE, JOURNAL

RUNS = "runs"
"""The directory in a bundle that has its runs, in a directory for each experiment."""
RUN_DEPTH = 5
"""Parts of a run's path: ``runs/EXPERIMENT/AGENT/TASK/ID``."""
MAX_DEPTH = 16
"""Parts of a file's path; what the judge writes has at most 11."""
MAX_PART = 255
"""Bytes of each part of a path, as in most file systems."""
MAX_DIRECTORIES = 200_000
DIRECTORIES_PER_RUN, DIRECTORIES_PER_FILE = 16, 2
"""Directories that a bundle may have: so many for each run and file; real bundles have fewer than files."""
_CHECKPOINTS = "checkpoints"


def is_valid_path(path: str) -> bool:
    """Return whether a path is relative, plain, printable and short enough."""
    plain = PurePosixPath(path)
    return (
        0 < len(plain.parts) <= MAX_DEPTH
        and not plain.is_absolute()
        and ".." not in plain.parts
        and plain.as_posix() == path
        and path.isprintable()
        and all(len(part.encode(errors="surrogatepass")) <= MAX_PART for part in plain.parts)
    )


def check_layout(files: Collection[str], runs: Mapping[str, str], experiments: Collection[str]) -> None:
    """Raise ``RecordError`` unless all files are where a bundle of these runs and experiments has them.

    ``runs`` has each run's id by its path, and ``experiments`` the names of the experiments' directories.
    """
    for path in (*files, *runs):
        if not is_valid_path(path):
            raise RecordError(f"{_shown(path)} is not a valid path in a bundle.")
    for path, run_id in runs.items():
        if not _is_run_path(path, run_id, experiments):
            raise RecordError(f"the run {_shown(path)} is not at {RUNS}/EXPERIMENT/AGENT/TASK/ID.")
        if f"{path}/{JOURNAL}" not in files:
            raise RecordError(f"the run {_shown(path)} has no {JOURNAL}.")
    documents = {f"{RUNS}/{name}/{file}" for name in experiments for file in (EXPERIMENT_FILE, REVEALED_FILE)}
    for path in files:
        parts = PurePosixPath(path).parts
        if path not in documents and (len(parts) <= RUN_DEPTH or "/".join(parts[:RUN_DEPTH]) not in runs):
            raise RecordError(f"{_shown(path)} belongs to no run that is listed.")
        inner = parts[RUN_DEPTH:]
        if len(inner) > 1 and inner[-1] == JOURNAL and inner[0] != _CHECKPOINTS:
            raise RecordError(f"{_shown(path)} is a run within a run.")
    _check_directories(files, len(runs))


def _is_run_path(path: str, run_id: str, experiments: Collection[str]) -> bool:
    parts = path.split("/")
    return (
        len(parts) == RUN_DEPTH
        and parts[0] == RUNS
        and parts[1] in experiments
        and EXPERIMENT.fullmatch(parts[1]) is not None
        and parts[-1] == run_id
    )


def _check_directories(files: Collection[str], runs: int) -> None:
    """Raise ``RecordError`` for too many directories, for a file in the place of one, and for names that are alike."""
    directories: set[str] = set()
    most = min(MAX_DIRECTORIES, DIRECTORIES_PER_RUN * runs + DIRECTORIES_PER_FILE * len(files))
    for path in files:
        above = path.rpartition("/")[0]
        while above and above not in directories:
            directories.add(above)
            above = above.rpartition("/")[0]
        if len(directories) > most:
            raise RecordError(f"it has more than {most:,} directories for {len(files):,} files.")
    if both := directories.intersection(files):
        raise RecordError(f"{_shown(min(both))} is both a file and a directory.")
    spellings: dict[str, str] = {}
    for path in (*files, *directories):
        other = spellings.setdefault(normalize("NFC", path).casefold(), path)
        if other != path:
            raise RecordError(f"{_shown(path)} and {_shown(other)} are the same where case or accents don't count.")


def _shown(path: str) -> str:
    return printable(path)[:200]
