"""Generalisation: train, validation and held-out means of each candidate, and the regret of the selection.

Held-out returns of checkpoints that were not selected are known only if they were played post hoc
(``records/post_hoc.py``); they never change the score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean
from evopolicygym.analysis.run_scores import validation_of
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import RunState
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.records.post_hoc import PostHoc, read_post_hoc
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class CheckpointMeans:
    """One candidate's means; each is None if it is not known."""

    submit_index: int
    """The index of the selected submission, else of the first submission with this checkpoint."""
    checkpoint: str
    train: Estimate | None
    """Over all train episodes that it has played; two on one case may differ, as a policy sees ``episode_index``."""
    validation: Estimate | None
    held_out: Estimate | None
    held_out_failed: int | None
    """Held-out episodes in which the policy failed, so that their return is the anchor's."""
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Generalisation:
    """One run's candidates."""

    checkpoints: tuple[CheckpointMeans, ...]
    """Each distinct one once, in the order of submissions."""
    train_gap: float | None
    """Train mean less held-out mean of the selected checkpoint."""
    validation_gap: float | None
    """Validation mean less held-out mean of the selected checkpoint."""
    best_other: float | None
    """The best held-out mean among the other checkpoints; None if none was played post hoc."""
    regret: float | None
    """How far ``best_other`` is above the score; 0 if it is not above, None if it is not known."""

    @property
    def selected(self) -> CheckpointMeans | None:
        """The selected checkpoint's means."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.is_selected), None)


def measure(record: RunRecord) -> Generalisation:
    """Return a run's candidates; raise ``RecordError`` if the post-hoc returns are not of this run's cases."""
    state = record.state
    post_hoc = read_post_hoc(record.paths) or {}
    for name, known in post_hoc.items():
        if len(known.returns) != state.opened.task.held_out_cases:
            raise RecordError(
                f"{record.paths.post_hoc} holds {len(known.returns)} returns of checkpoint {name[:12]}; "
                f"expected {state.opened.task.held_out_cases}, one for each held-out case."
            )
    means = tuple(_means(state, name, post_hoc.get(name)) for name in state.checkpoints)
    chosen = next((checkpoint for checkpoint in means if checkpoint.is_selected), None)
    held_out = chosen.held_out.mean if chosen and chosen.held_out else None
    others = [checkpoint.held_out.mean for checkpoint in means if not checkpoint.is_selected and checkpoint.held_out]
    best_other = max(others, default=None)
    is_known = held_out is not None and best_other is not None
    return Generalisation(
        checkpoints=means,
        train_gap=_gap(chosen.train if chosen else None, held_out),
        validation_gap=_gap(chosen.validation if chosen else None, held_out),
        best_other=best_other,
        regret=max(0.0, best_other - held_out) if is_known else None,  # type: ignore[operator]
    )


def _means(state: RunState, checkpoint: str, post_hoc: PostHoc | None) -> CheckpointMeans:
    first = state.first_with(checkpoint)
    is_selected = state.selected is not None and state.selected.checkpoint == checkpoint
    train = [
        episode.episode_return
        for submission in state.candidates
        if submission.charged.checkpoint == checkpoint
        for episode in submission.episodes
        if episode
    ]
    return CheckpointMeans(
        submit_index=state.selected.submit_index if is_selected and state.selected else first.index,
        checkpoint=checkpoint,
        train=estimate(train) if train else None,
        validation=validation_of(state, first),
        held_out=state.held_out() if is_selected else (estimate(post_hoc.returns) if post_hoc else None),
        held_out_failed=_failure_count(state, checkpoint, post_hoc, is_selected=is_selected),
        is_selected=is_selected,
    )


def _failure_count(state: RunState, checkpoint: str, post_hoc: PostHoc | None, *, is_selected: bool) -> int | None:
    if is_selected and not state.opened.task.environment.is_known:
        return None
    if is_selected:
        return sum(bool(episode and episode.failure) for episode in state.rollout(Split.HELD_OUT, checkpoint).episodes)
    return None if post_hoc is None else len(post_hoc.failures)


def _gap(mean: Estimate | None, other: float | None) -> float | None:
    return None if mean is None or other is None else mean.mean - other


def table(generalisation: Generalisation) -> Table:
    """Return the means of each candidate."""
    splits = ("train", "validation", "held-out")
    means = (name for split in splits for name in (split, f"{split} s.e."))
    columns = ("submission", *means, "held-out failed", "selected")
    rows = tuple(
        (
            checkpoint.submit_index,
            *_cells(checkpoint.train),
            *_cells(checkpoint.validation),
            *_cells(checkpoint.held_out),
            checkpoint.held_out_failed,
            "yes" if checkpoint.is_selected else "",
        )
        for checkpoint in generalisation.checkpoints
    )
    return table_of("generalisation", columns, rows)


def _cells(value: Estimate | None) -> tuple[Cell, Cell]:
    return (value.mean, value.standard_error) if value else (None, None)


def summary(runs: Sequence[Generalisation]) -> Mapping[str, Cell]:
    """Return means over runs, in the environment's own returns."""
    chosen = [run.selected for run in runs]
    return {
        "train": mean(checkpoint.train.mean if checkpoint and checkpoint.train else None for checkpoint in chosen),
        "validation": mean(
            checkpoint.validation.mean if checkpoint and checkpoint.validation else None for checkpoint in chosen
        ),
        "held-out": mean(
            checkpoint.held_out.mean if checkpoint and checkpoint.held_out else None for checkpoint in chosen
        ),
        "train gap": mean(run.train_gap for run in runs),
        "validation gap": mean(run.validation_gap for run in runs),
        "regret": mean(run.regret for run in runs),
        "runs with regret known": sum(run.regret is not None for run in runs),
    }


IN_RETURNS = frozenset({"train", "validation", "held-out", "train gap", "validation gap", "regret"})
DIAGNOSTIC = Diagnostic(measure, table, summary, IN_RETURNS)
