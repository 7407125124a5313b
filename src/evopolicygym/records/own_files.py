"""What a judge writes in a run's directory, looked at before a judge of ours goes on writing there.

A record from elsewhere may hold a link, a pipe or a device under any name. What an agent writes by itself
(``workspace/system``, its home) is not looked into here: whoever reads that follows no link.
"""

from contextlib import suppress
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.records.paths import RunPaths


def check_own_files(paths: RunPaths) -> None:
    """Raise ``RecordError`` that names it where anything but a file or directory lies where a judge writes."""
    root = paths.root
    for file in (paths.journal, paths.document, paths.lock, paths.post_hoc):
        regular_file.is_there(file)
    for directory in (paths.workspace, paths.system, paths.feedback, root / "home", paths.staging, paths.workers):
        with suppress(FileNotFoundError):
            regular_file.check_directory(directory, root)
    for directory in (paths.checkpoints, paths.evaluation, paths.logs, *_staged(paths)):
        with suppress(FileNotFoundError):
            for _ in regular_file.below(directory, root):
                pass


def _staged(paths: RunPaths) -> list[Path]:
    """Return what is being made; the scratch of workers, which is removed unread, is full of links of our own."""
    with suppress(FileNotFoundError):
        return [path for path in paths.staging.iterdir() if path != paths.workers]
    return []
