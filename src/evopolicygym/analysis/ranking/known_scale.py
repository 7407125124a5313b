"""The scale of a task that no table changes: from the better of random and idle play, 0, to the best known score, 1."""

import math
from dataclasses import dataclass
from functools import lru_cache

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.core.world import World
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.specs.identity import EnvironmentIdentity, shipped_identity


@dataclass(frozen=True, slots=True)
class KnownScale:
    """The ends of a task's scale; scores on it are not clipped."""

    low: float
    """The better one of random and idle play."""
    best: float
    """The best known score, above ``low`` by more than noise."""
    source: str
    """Whose the best known score is."""

    def value(self, score: float) -> float:
        """Return the position of a score: 0 is the better of random and idle play, 1 the best known score."""
        return (score - self.low) / (self.best - self.low)


NOISE = 1.96
"""How many standard errors of their difference a best score is above the low end of a scale, at least."""


def exceeds(best: tuple[float, float | None], low: tuple[float, float | None]) -> bool:
    """Return whether a mean is above another by more than noise, each with its standard error; None counts as 0."""
    return best[0] - low[0] > NOISE * math.hypot(best[1] or 0.0, low[1] or 0.0)


@dataclass(frozen=True, slots=True)
class KnownScores:
    """Scores of known policies on a task."""

    random: Anchor | None
    idle: Anchor | None
    reference: Anchor | None

    @classmethod
    def of(cls, spec: EnvironmentSpec) -> "KnownScores":
        """Return those that a spec has."""
        return cls(spec.random_anchor, spec.idle_anchor, spec.reference_anchor)


def known_scale(task: str, environment: EnvironmentIdentity, recorded: KnownScores | None = None) -> KnownScale | None:
    """Return the scale of an environment that is played under a task's name; None without either end.

    The best known score is the one that the task's pack declares; else the better of the reference policy and the
    paper's best agent. ``recorded`` are the scores that a run's record holds, for environments that do not ship.
    """
    if environment.world is not None:
        return _scale_in_world(environment.world, recorded)
    shipped, best, source = _shipped(task, environment.id, environment.max_steps)
    is_same = not environment.own and (task not in _spec_names() or shipped_identity(task).is_same(environment))
    scores = shipped if shipped is not None and is_same else recorded
    if scores is None:
        return None
    low = max(((anchor.mean, anchor.standard_error) for anchor in (scores.random, scores.idle) if anchor), default=None)
    known = [(best, 0.0, source)] if best is not None else []
    if not known and scores.reference:
        known.append((scores.reference.mean, scores.reference.standard_error, "reference policy"))
    if best is None and is_same and (published := paper().scores(task)):
        name = max(published, key=lambda entry: published[entry])
        known.append((published[name], 0.0, name))
    top = max(known, default=None)
    if low is None or top is None or not exceeds(top[:2], low):
        return None
    return KnownScale(low[0], top[0], top[2])


def _scale_in_world(world: World, recorded: KnownScores | None) -> KnownScale | None:
    """Return the scale of a world: what ships was measured in the standard world and says nothing here."""
    anchors = [anchor for anchor in (recorded.random, recorded.idle) if anchor] if recorded else []
    best = recorded.reference if recorded else None
    low = max(((anchor.mean, anchor.standard_error) for anchor in anchors), default=None)
    if low is None or best is None or not exceeds((best.mean, best.standard_error), low):
        return None
    return KnownScale(low[0], best.mean, f"reference policy of the standard world, in the world {world.name}")


@lru_cache(1)
def _spec_names() -> frozenset[str]:
    return frozenset(catalog.names())


@lru_cache(1024)
def _shipped(task: str, gymnasium_id: str, max_steps: int) -> tuple[KnownScores | None, float | None, str]:
    """Return the scores that ship for a task, with the best known score that its pack declares and whose that is."""
    if task in _spec_names():
        return KnownScores.of(catalog.load(task)), None, ""
    listed = pack_catalog.find_listed(task)
    if listed is None or listed[1].id != gymnasium_id.rpartition(":")[2] or listed[1].anchors is None:
        return None, None, ""
    anchors, headroom = listed[1].anchors, listed[1].headroom
    if anchors.max_steps != max_steps:
        return None, None, ""
    scores = KnownScores(anchors.random, anchors.idle, anchors.reference)
    return (scores, headroom.best_known, headroom.source) if headroom else (scores, None, "")
