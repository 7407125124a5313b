"""What is in a suite, without asking a simulator: each task, its pack, why it is hard, what known policies score."""

from collections.abc import Iterable
from dataclasses import dataclass

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Challenge, Headroom, Pack, PackTask
from evopolicygym.core.task import Anchor
from evopolicygym.environments.versions import are_installed
from evopolicygym.packs.installation import needed
from evopolicygym.specs import catalog, pack_catalog


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """A task of a suite."""

    name: str
    id: str
    """What gymnasium registered."""
    pack: str
    """Empty for an environment that has a spec of its own."""
    max_steps: int | None
    """None where only its simulator knows the limit."""
    challenge: Challenge | None
    random: Anchor | None
    idle: Anchor | None
    degenerate: Anchor | None
    reference: Anchor | None
    headroom: Headroom | None = None

    @property
    def zero(self) -> float | None:
        """The score that stands for 0: the better one of random and idle play; None where neither was measured."""
        return max((one.mean for one in (self.random, self.idle) if one), default=None)

    def normalised(self, score: float) -> float | None:
        """Return a score as a share of the way to the best known one; above 1 what is better, None where none is."""
        if self.headroom is None or self.zero is None:
            return None
        return (score - self.zero) / (self.headroom.best_known - self.zero)


def suite_task(asked: str) -> SuiteTask:
    """Return what is known of a task that a suite names; raise ``UnknownName`` where nobody knows it."""
    if not _has_spec(asked) and (found := pack_catalog.find(asked)):
        return _of_pack(*found)
    spec = catalog.load(asked)
    anchors = spec.random_anchor, spec.idle_anchor, spec.degenerate_anchor, spec.reference_anchor
    return SuiteTask(spec.name, spec.registered_id, "", spec.max_steps, None, *anchors)


def refuse_missing_packs(environments: Iterable[str]) -> None:
    """Raise ``UsageError`` that names every pack that environments need and that can't be played, with its command."""
    missing: dict[str, list[str]] = {}
    for environment in environments:
        if not _has_spec(environment) and (found := pack_catalog.find(environment)) and (how := _lacking(found[0])):
            missing.setdefault(how, []).append(found[1].name)
    if missing:
        what = "a pack that is" if len(missing) == 1 else f"{len(missing)} packs that are"
        lines = [f"  {how}   for {', '.join(tasks)}\n" for how, tasks in missing.items()]
        raise UsageError(
            f"The suite needs {what} not installed, so nothing was played. What installs:\n{''.join(lines)}"
            f"--environment NAME, which may be given several times, plays a part of the suite."
        )


def _lacking(pack: Pack) -> str:
    """Return what has to be typed for a pack to be played; empty where it can be."""
    if pack.is_beside_us:
        return "" if are_installed(pack.packages) else f"pip install 'evopolicygym[{pack.extra}]'"
    try:
        needed(pack)
    except UsageError:
        return f"evopolicygym packs install {pack.name}   ({pack.size_mb} MB)"
    return ""


def _has_spec(asked: str) -> bool:
    return asked.endswith(".toml") or asked in catalog.names()


def _of_pack(pack: Pack, task: PackTask) -> SuiteTask:
    found = task.anchors
    steps = task.max_steps or (found.max_steps if found else None)
    anchors = (found.random, found.idle, found.degenerate, found.reference) if found else (None,) * 4
    return SuiteTask(task.name, task.id, pack.name, steps, task.challenge, *anchors, headroom=task.headroom)
