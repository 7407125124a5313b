"""The files in which a record has an episode's steps: read where they are its own, and no larger than is read."""

from pathlib import Path

from evopolicygym.core.errors import RecordError
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.trajectories import ACTIONS, OBSERVATIONS, TRAJECTORY
from evopolicygym.viewer.documents.reading import below

MOST_BYTES = 256 << 20
"""Of a file of steps that is read."""


def step_files(record: RunRecord, folder: Path) -> list[Path] | None:
    """Return the files of an episode's steps; None where there are none, or where a link stands for one.

    Raises ``RecordError`` where one is larger than is read.
    """
    root = record.paths.root
    names = (TRAJECTORY, OBSERVATIONS, ACTIONS)
    if below(root, folder) is None or any((folder / name).is_symlink() for name in names):
        return None
    files = [file for name in names if (file := below(root, folder / name)) is not None]
    for file in files:
        if file.stat().st_size > MOST_BYTES:
            raise RecordError(
                f"The steps in {folder.name} are larger than {MOST_BYTES >> 20} MiB, which is more than is read."
            )
    return files or None
