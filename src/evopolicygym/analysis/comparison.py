"""One run's score beside anchors and published entries."""

from dataclasses import dataclass

from evopolicygym.analysis.published import paper
from evopolicygym.core.environment import Anchor
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
    """Return this run's score, the anchors and the paper's entries, the best first."""
    held_out, opened = state.held_out(), state.opened
    environment = opened.task.environment
    rows = [
        Row("random anchor (ours)", *_anchor(environment.random_anchor)) if environment.random_anchor else None,
        Row("idle anchor (ours)", *_anchor(environment.idle_anchor)) if environment.idle_anchor else None,
    ]
    rows += [Row(name, mean, None, paper().source) for name, mean in paper().scores(environment.name).items()]
    if held_out:
        name = opened.agent.name + (f" {opened.agent.model}" if opened.agent.model else "")
        cases = f"{held_out.count} held-out cases, {opened.split} split"
        rows.append(Row(f"this run ({name})", held_out.mean, held_out.standard_error, cases, is_run=True))
    return sorted((row for row in rows if row), key=lambda row: -row.mean)


def _anchor(anchor: Anchor) -> tuple[float, float, str]:
    return anchor.mean, anchor.standard_error, f"{anchor.episodes} public cases"
