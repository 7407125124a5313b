"""Measures the anchors of an environment: *random*, *idle* and, where ending episodes early pays, *degenerate*.

How an anchor is played is described in ``player.py``; which action ends episodes early, in ``early_ending.py``. The
fourth anchor, *reference*, is the mean return of a policy that a person wrote, where there is one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evopolicygym import references
from evopolicygym.core.cases import SIZES, Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import estimate, total
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.runs.anchors.early_ending import early_ending
from evopolicygym.runs.anchors.player import AnchorPlayer, PlayedAnchor, repeating, starter

FEWEST, CASES = 2, SIZES[Split.HELD_OUT]
"""Held-out cases of which a standard error can be known, and those that an anchor is measured on by default: all."""


class AnchorKind(StrEnum):
    """Whose mean return an anchor is."""

    RANDOM = "random"
    """Uniform random actions."""
    IDLE = "idle"
    """The idle action at every step."""
    DEGENERATE = "degenerate"
    """The action that, repeated, ends episodes early, where that pays."""
    REFERENCE = "reference"
    """The policy that a person wrote (``references/``), where there is one."""


@dataclass(frozen=True, slots=True)
class MeasuredAnchor:
    """An anchor, with what its episodes took."""

    anchor: Anchor
    mean_steps: float
    seconds: float
    """That an episode takes on one core, as it was measured: with what else the machine had to do."""


@dataclass(frozen=True, slots=True)
class MeasuredAnchors:
    """The anchors of one environment that were measured, by kind."""

    spec: EnvironmentSpec
    by_kind: Mapping[AnchorKind, MeasuredAnchor]
    degenerate_policy: str = ""
    """What the degenerate policy does, in a few words; empty where none was found to pay."""


def measured(
    spec: EnvironmentSpec,
    cases: int = CASES,
    kinds: Collection[AnchorKind] | None = None,
    workers: int | None = None,
    observe: Callable[[str, int], object] = lambda _what, _done: None,
) -> MeasuredAnchors:
    """Measure anchors on the first held-out cases of the public split; ``observe`` is called with what is played.

    Of no kinds at all it measures each that there is. For ``degenerate`` random play and the idle action are measured
    too; it is looked for where both are below zero. Raises ``UsageError`` where there are not so many cases, or so few
    that no standard error can be known, and where a reference is asked for that there is not.
    """
    if not FEWEST <= cases <= CASES:
        raise UsageError(f"Invalid number of cases: expected {FEWEST} to {CASES}, got {cases}.")
    wanted = _wanted(spec, kinds)
    reference = references.files_of(spec.name) if AnchorKind.REFERENCE in wanted else {}
    found: dict[AnchorKind, MeasuredAnchor] = {}
    said = ""
    with AnchorPlayer(spec, workers) as player:

        def play(kind: AnchorKind, policy: Mapping[str, bytes]) -> None:
            played = player.play(policy, Split.HELD_OUT, cases, lambda done: observe(kind.value, done))
            found[kind] = _anchor(played, player.playing)

        if AnchorKind.RANDOM in wanted:
            play(AnchorKind.RANDOM, starter())
        if AnchorKind.IDLE in wanted:
            play(AnchorKind.IDLE, repeating(spec.idle_action))
        if AnchorKind.DEGENERATE in wanted and max(one.anchor.mean for one in found.values()) < 0:
            action = early_ending(player, lambda what: observe(what, 0))
            if action is not None:
                said = f"repeats the action {action}"
                play(AnchorKind.DEGENERATE, repeating(action))
        if reference:
            play(AnchorKind.REFERENCE, reference)
    return MeasuredAnchors(spec, found, said)


def repeated(spec: EnvironmentSpec, action: Any, cases: int = CASES) -> Anchor:  # noqa: ANN401 - as JSON has it
    """Return the anchor of the policy that plays one action at every step."""
    with AnchorPlayer(spec) as player:
        played = player.play(repeating(action), Split.HELD_OUT, cases, lambda _: None)
        return _anchor(played, player.playing).anchor


def _wanted(spec: EnvironmentSpec, kinds: Collection[AnchorKind] | None) -> set[AnchorKind]:
    """Return the kinds to measure, those aside that there are only for some environments and nobody asked for."""
    if kinds is None:
        return set(AnchorKind) - (set() if spec.name in references.names() else {AnchorKind.REFERENCE})
    needed = {AnchorKind.RANDOM, AnchorKind.IDLE} if AnchorKind.DEGENERATE in kinds else set()
    return {*kinds, *needed}


def _anchor(played: PlayedAnchor, playing: int) -> MeasuredAnchor:
    episodes = played.episodes
    known = [one.success for one in episodes if one.success is not None]
    mean = estimate(sorted(one.episode_return for one in episodes))
    return MeasuredAnchor(
        Anchor(mean.mean, mean.standard_error or 0.0, mean.count, sum(known) / len(known) if known else None),
        total([one.length for one in episodes]) / len(episodes),
        played.seconds * min(playing, len(episodes)) / len(episodes),
    )
