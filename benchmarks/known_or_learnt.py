"""What an agent knows beforehand against what it learns: runs of one kind of agent by interface, world and feedback.

Prints, for each task and condition, every run's first submission and its selected one, and after how many episodes
half of the way between them was made: ``python benchmarks/known_or_learnt.py [RUNS] [--picture FILE]``. Submissions
are compared by their validation means, which are over the same hidden cases for all.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import evopolicygym
from evopolicygym.core.text import number
from evopolicygym.records.rows import RunRow

BUNDLE = Path(__file__).parents[1] / "results" / "examples" / "known_or_learnt.tar.gz"
COLOURS = {
    "standard": "#0072b2",
    "permuted": "#009e73",
    "anonymous": "#d55e00",
    "anonymous, returns": "#cc79a7",
    "slippery world": "#666666",
}
"""The conditions in the order of the rows, and their colours in the picture."""
USUAL = ("standard", "standard world", "full")
"""What a condition's name leaves out."""
COLUMNS = ("task", "condition", "first submission", "selected", "held-out", "episodes to half the gain", "submissions")


class Learning(NamedTuple):
    """How one run went."""

    curve: tuple[tuple[int, float], ...]
    """Episodes spent and the best validation mean so far, by submission."""
    first: float
    selected: float
    held_out: float
    half: int
    """Episodes spent when half of the way from the first to the selected submission was made."""
    submissions: int


def learning_of(run: RunRow, submissions: Sequence[evopolicygym.SubmissionRow]) -> Learning:
    """Return how a finished run went."""
    spent, best, curve, first = 0, float("-inf"), [], None
    for one in submissions:
        spent += one.episodes
        if one.validation_mean is None:
            continue
        first = one.validation_mean if first is None else first
        best = max(best, one.validation_mean)
        curve.append((spent, best))
    if first is None or run.score is None:
        raise SystemExit(f"{run.run_id} has no score.")
    half = next(episodes for episodes, worth in curve if worth >= (first + best) / 2)
    return Learning(tuple(curve), first, best, run.score, half, len(submissions))


def condition_of(run: RunRow) -> str:
    """Return what was not as usual in a run: its interface, world and feedback."""
    world = f"{run.world} world" if run.world else None
    unusual = [name for name in (run.interface, world, run.feedback) if name not in {None, "", *USUAL}]
    return ", ".join(map(str, unusual)) or "standard"


def read(runs: Path) -> dict[tuple[str, str], list[Learning]]:
    """Return how all runs went, by task and condition."""
    loaded = evopolicygym.load_runs(runs)
    of_run = defaultdict(list)
    for submission in loaded.submissions:
        of_run[submission.run_id].append(submission)
    found: dict[tuple[str, str], list[Learning]] = defaultdict(list)
    for run in loaded.runs:
        found[run.task, condition_of(run)].append(learning_of(run, of_run[run.run_id]))
    order = list(COLOURS)
    return dict(sorted(found.items(), key=lambda item: (item[0][0].lower(), order.index(item[0][1]))))


def draw(found: dict[tuple[str, str], list[Learning]], picture: Path) -> None:
    """Draw each task's runs: the best validation mean so far over the episodes spent."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "known_or_learnt"
    from matplotlib import pyplot as plt

    tasks = list(dict.fromkeys(task for task, _ in found))
    figure, axes = plt.subplots(1, len(tasks), figsize=(3.6 * len(tasks), 3.2), layout="constrained")
    for axis, task in zip(axes, tasks, strict=True):
        for (of, condition), runs in found.items():
            for at, run in enumerate(runs if of == task else []):
                spent, worth = zip(*run.curve, strict=True)
                label = condition if at == 0 else None
                axis.step(spent, worth, where="post", color=COLOURS[condition], label=label, linewidth=1.4)
                axis.plot(spent[0], worth[0], "o", color=COLOURS[condition], markersize=4)
        axis.set(title=task, xlabel="train episodes spent", xlim=(0, 130))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("best validation mean so far")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    """Print the table, and draw the picture where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, default=BUNDLE)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    found = read(arguments.runs)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for (task, condition), runs in found.items():
        cells = [[number(getattr(run, name)) for run in runs] for name in ("first", "selected", "held_out")]
        counts = [[str(getattr(run, name)) for run in runs] for name in ("half", "submissions")]
        print(f"| {' | '.join([task, condition, *map(', '.join, [*cells, *counts])])} |")
    if arguments.picture:
        draw(found, arguments.picture)


if __name__ == "__main__":
    main()
