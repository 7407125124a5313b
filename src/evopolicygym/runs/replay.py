"""Plays a finished run's hidden cases again, compares every one, and selects again from what validation came to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState
from evopolicygym.core.score import Candidate, estimate, select
from evopolicygym.core.text import counted
from evopolicygym.runs.revisit import ReplayMeans, revisited


class Verdict(StrEnum):
    """What a replay says of a score."""

    SAME = "same"
    """Every trajectory is the recorded one, bit for bit."""
    ROUNDING = "rounding"
    """The record was made by other arithmetic or versions, and no return differs by more than rounding."""
    DIFFERENT = "different"
    """Anything else: the record was changed, or rounding grew, as it does in simulators that are chaotic."""


ROUNDING = 1e-4
"""The largest difference that is called rounding: as a share of the return, as it is for returns below 1. A record that
was changed by less can't be distinguished from one of another processor; its score would be the same."""
MOST_NAMED = 8
"""Cases that are named."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One hidden case, as recorded and as it played now."""

    position: int
    recorded: Episode
    again: Episode
    isolation: str
    """The level at which it played now."""
    reasons: tuple[str, ...] = ()
    """Why it may differ on another machine, in words: the processor, where arithmetic was not pinned or is other."""
    other_versions: tuple[str, ...] = ()
    """How versions and the simulator's code here differ from the run's, in words: no hindrance where both are the same
    all the same."""
    split: Split = Split.HELD_OUT
    checkpoint: str = ""

    @property
    def difference(self) -> float:
        """By how much the return differs from the recorded one."""
        return self.again.episode_return - self.recorded.episode_return

    @property
    def is_within_rounding(self) -> bool:
        """Whether it ended as recorded, at the same step, and its return differs by no more than rounding."""
        most = ROUNDING * max(1.0, abs(self.recorded.episode_return))
        return _ending(self.recorded) == _ending(self.again) and abs(self.difference) <= most

    @property
    def same(self) -> bool:
        """Whether both are the same, bit for bit."""
        return (self.recorded.trajectory_sha256, self.recorded.episode_return) == (
            self.again.trajectory_sha256,
            self.again.episode_return,
        )


def replay(
    root: Path,
    means: ReplayMeans = ReplayMeans(),  # noqa: B008 - it is frozen
    splits: Sequence[Split] = (Split.HELD_OUT,),
) -> Iterator[Replayed]:
    """Yield every case of the splits, played again: held-out's with the selected checkpoint, validation's with each.

    The cases of a checkpoint come in any order. Raises what ``revisited`` raises.
    """
    with revisited(root, means, any_versions=True) as run:
        state, how = run.record.state, (run.isolation, run.reasons, run.other_versions)
        todo = [(split, checkpoint) for split in splits for checkpoint in checkpoints_of(state, split)]
        for split, checkpoint in todo:
            recorded = state.rollout(split, checkpoint).episodes
            for position, again in run.hidden(split, checkpoint):
                then = recorded[position]
                if then is not None:
                    yield Replayed(position, then, again, *how, split, checkpoint)


def checkpoints_of(state: RunState, split: Split) -> tuple[str, ...]:
    """Return the checkpoints that played a hidden split."""
    if split is Split.VALIDATION:
        return state.checkpoints
    return (state.selected.checkpoint,) if state.selected else ()


def selected_again(state: RunState, played: Sequence[Replayed]) -> int | None:
    """Return the submission that is selected from validation as it played now; None where none can be."""
    returns: dict[str, list[float]] = {}
    for case in played:
        if case.split is Split.VALIDATION:
            returns.setdefault(case.checkpoint, []).append(case.again.episode_return)
    choice = select(
        Candidate(submission.index, estimate(returns[submission.charged.checkpoint]).mean)
        for submission in state.candidates
        if submission.charged.checkpoint in returns
    )
    return choice.submit_index if choice else None


def verdict_of(state: RunState, played: Sequence[Replayed]) -> tuple[Verdict, str]:
    """Return what a replay of both hidden splits says of the score, and why, in words."""
    found = {
        split: judged([case for case in played if case.split is split]) for split in (Split.VALIDATION, Split.HELD_OUT)
    }
    detail = "; ".join(f"{split.value}: {why}" for split, (_, why) in found.items())
    again, then = selected_again(state, played), state.selected.submit_index if state.selected else None
    if again != then:
        return Verdict.DIFFERENT, f"validation selects submission {again}, the record has {then}; {detail}"
    return max((verdict for verdict, _ in found.values()), key=list(Verdict).index), detail


def judged(played: Sequence[Replayed]) -> tuple[Verdict, str]:
    """Return what a replay says of the score, and by how much returns differ, in words."""
    different = [one for one in played if not one.same]
    if not different:
        return Verdict.SAME, f"{counted(len(played), 'case')} the same, bit for bit"
    most = max(abs(one.difference) for one in different)
    mean = abs(fsum(one.difference for one in different)) / len(played)
    said = (
        f"{len(different)} of {len(played)} cases differ, their returns by at most {most:.3g}, the score by {mean:.3g} "
        f"(cases {', '.join(str(one.position) for one in different[:MOST_NAMED])}"
        f"{', …' if len(different) > MOST_NAMED else ''})"
    )
    reasons = played[0].reasons
    if not reasons and not played[0].other_versions:
        return Verdict.DIFFERENT, f"{said}: arithmetic and versions are those of the record, so rounding explains none"
    because = f"; {'; '.join(reasons)}" if reasons else ""
    if all(one.is_within_rounding for one in different):
        return Verdict.ROUNDING, f"{said}: no more than rounding{because}"
    return Verdict.DIFFERENT, f"{said}: more than rounding, unless the simulator makes it grow{because}"


def _ending(episode: Episode) -> tuple[object, ...]:
    failure = episode.failure
    failed = (failure.reason, failure.step) if failure else None
    return episode.length, episode.terminated, episode.truncated, episode.success, failed
