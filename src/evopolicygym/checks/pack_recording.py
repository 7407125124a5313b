"""The file of a pack's check, written while it goes on: a check that was broken off goes on where it stood."""

from pathlib import Path

from evopolicygym.core.pack import CheckedTask, Pack, PackRecord
from evopolicygym.core.text import now
from evopolicygym.environments.derived import pack_spec
from evopolicygym.environments.versions import versions
from evopolicygym.packs.installation import needed
from evopolicygym.records import durable
from evopolicygym.rollout.arithmetic import processor
from evopolicygym.specs.pack_records import decode, encode
from evopolicygym.version import __version__


class PackRecording:
    """A record that grows with each task that is checked."""

    def __init__(self, pack: Pack, file: Path) -> None:
        """Go on with a file of the same versions; one of others is written anew. Raises ``UsageError``."""
        self._file, self._order = file, [task.name for task in pack.tasks]
        self._empty = PackRecord(
            pack.name, __version__, "", processor(), pack.requirements, checked_versions(pack), tasks=()
        )
        before = decode(file.read_bytes(), str(file)) if file.exists() else self._empty
        continues = _identity(before) == _identity(self._empty)
        self._tasks = {one.name: one for one in before.tasks} if continues else {}

    def passed(self, name: str) -> CheckedTask | None:
        """Return what came of a task that has passed before; what failed is played again."""
        found = self._tasks.get(name)
        return found if found and found.ok else None

    def add(self, task: CheckedTask) -> None:
        """Write down what came of a task."""
        self._tasks[task.name] = task
        record = PackRecord(
            pack=self._empty.pack,
            evopolicygym=self._empty.evopolicygym,
            date=now().partition("T")[0],
            processor=self._empty.processor,
            requirements=self._empty.requirements,
            versions=self._empty.versions,
            tasks=tuple(self._tasks[name] for name in self._order if name in self._tasks),
        )
        self._file.parent.mkdir(parents=True, exist_ok=True)
        durable.write_text(self._file, encode(record))


def checked_versions(pack: Pack) -> dict[str, str]:
    """Return the versions that a pack plays on here: of Python, numpy, gymnasium, and of its own packages."""
    if pack.is_beside_us:
        return versions(pack_spec(pack, pack.tasks[0]))
    own = needed(pack)
    found = {name.lower().replace("_", "-"): version for name, version in own.versions.items()}
    named = ("numpy", "gymnasium", *pack.packages)
    return {"python": own.python, **{name: found[name] for name in named if name in found}}


def _identity(record: PackRecord) -> tuple[object, ...]:
    return record.pack, record.evopolicygym, record.requirements, dict(record.versions)
