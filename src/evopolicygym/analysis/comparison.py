"""One run's score beside anchors and published entries."""

from dataclasses import dataclass

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.run import RunState


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison."""

    name: str
    mean: float
    standard_error: float | None
    """None where it was not published."""
    origin: str
    """Where the number comes from."""
    is_run: bool = False


def compare(state: RunState) -> list[Row]:
    """Return this run's score, the anchors and the paper's entries where it has the same game, the best first."""
    held_out, opened = state.held_out(), state.opened
    environment = opened.task.environment
    anchors = {
        "random anchor (ours)": (environment.random_anchor, "public cases"),
        "idle anchor (ours)": (environment.idle_anchor, "public cases"),
        "ending early (ours)": (environment.degenerate_anchor, "public cases"),
        "reference policy (ours)": (environment.reference_anchor, "cases of results/references"),
    }
    rows = [
        Row(name, anchor.mean, anchor.standard_error, f"{anchor.episodes} {cases}")
        for name, (anchor, cases) in anchors.items()
        if anchor
    ]
    rows += [Row(name, mean, None, paper().source) for name, mean in paper().scores_on(environment).items()]
    if held_out:
        name = opened.agent.name + (f" {opened.agent.model}" if opened.agent.model else "")
        cases = f"{held_out.count} held-out cases, {opened.split} split"
        rows.append(Row(f"this run ({name})", held_out.mean, held_out.standard_error, cases, is_run=True))
    return sorted(rows, key=lambda row: -row.mean)
