"""The use of the budget: episodes by submission, their train cases, and those after the selected submission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean, share
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class SubmissionSpending:
    """One submission's part."""

    submit_index: int
    episodes: int
    spent: int
    """The episodes up to and with this submission."""
    new_cases: int
    """Distinct train cases that no submission before had played."""
    known_cases: int
    """Distinct train cases that one before had played."""
    repeats: int
    """Episodes of a case that this very submission plays already."""
    is_selected: bool
    """Whether it is the one that was selected; others with its checkpoint are not."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """One run's spending."""

    submissions: tuple[SubmissionSpending, ...]
    budget: int
    spent: int
    distinct_cases: int
    repeated_episodes: int
    """Episodes of a case that was played before, in this submission or an earlier one."""
    selected_at: int | None
    """Episodes spent when the selected checkpoint was first submitted, its own included; None if none is."""
    spent_after: int | None
    """Episodes spent after that."""


def measure(record: RunRecord) -> BudgetUse:
    """Return a run's spending."""
    state = record.state
    spendings, seen = [], set[int]()
    for submission in state.submissions:
        spendings.append(_spending(state, submission, seen))
        seen.update(submission.charged.env_instances)
    chosen = state.first_with(state.selected.checkpoint) if state.selected else None
    selected_at = spendings[chosen.index].spent if chosen else None
    return BudgetUse(
        submissions=tuple(spendings),
        budget=state.budget,
        spent=state.spent,
        distinct_cases=len(seen),
        repeated_episodes=state.spent - len(seen),
        selected_at=selected_at,
        spent_after=None if selected_at is None else state.spent - selected_at,
    )


def _spending(state: RunState, submission: SubmissionState, seen: set[int]) -> SubmissionSpending:
    cases = submission.charged.env_instances
    distinct = set(cases)
    return SubmissionSpending(
        submit_index=submission.index,
        episodes=len(cases),
        spent=submission.first_global_episode + len(cases),
        new_cases=len(distinct - seen),
        known_cases=len(distinct & seen),
        repeats=len(cases) - len(distinct),
        is_selected=state.is_selected(submission),
    )


def table(use: BudgetUse) -> Table:
    """Return the spending of each submission."""
    columns = ("submission", "episodes", "spent", "new cases", "known cases", "repeats", "selected")
    rows = tuple(
        (
            spending.submit_index,
            spending.episodes,
            spending.spent,
            spending.new_cases,
            spending.known_cases,
            spending.repeats,
            "yes" if spending.is_selected else "",
        )
        for spending in use.submissions
    )
    return table_of("budget", columns, rows)


def summary(uses: Sequence[BudgetUse]) -> Mapping[str, Cell]:
    """Return means over runs; episodes a submission over all submissions of all of them."""
    submissions = sum(len(use.submissions) for use in uses)
    return {
        "submissions": mean(len(use.submissions) for use in uses),
        "episodes a submission": share(sum(use.spent for use in uses), submissions),
        "distinct cases": mean(use.distinct_cases for use in uses),
        "repeated episodes": mean(use.repeated_episodes for use in uses),
        "selected at": mean(use.selected_at for use in uses),
        "spent after": mean(use.spent_after for use in uses),
        "unspent": mean(use.budget - use.spent for use in uses),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary)
