"""``evopolicygym train``: train a baseline by reinforcement learning, and write it as a policy project."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as View
from rich.text import Text

from evopolicygym.baselines.export import export, refuse_occupied
from evopolicygym.baselines.settings import algorithm_named, budget_of, fitting
from evopolicygym.baselines.training import TrainingProgress
from evopolicygym.baselines.training import train as learn
from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import complete_environment
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.core.text import number, shell_word
from evopolicygym.specs import catalog

EXAMPLES = """
Examples:

evopolicygym train acrobot --episodes 128 -o baselines/acrobot

evopolicygym train reacher --algorithm sac --minutes 10 --seed 1 -o baselines/reacher

evopolicygym run reacher --agent policy --option project=baselines/reacher --model "SAC 10 minutes" --budget 1
"""
MEAN_EPISODES = 20
"""The latest episodes whose mean return is shown."""
REFRESH_STEPS = 100
"""Steps between updates of the view."""


def train(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="An environment's name, or a spec's .toml file.", autocompletion=complete_environment
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The directory of the policy project.")],
    algorithm: Annotated[
        str | None, typer.Option(help="ppo or sac.", show_default="the one that fits the environment")
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="The budget in train episodes, counted exactly.")] = None,
    steps: Annotated[int | None, typer.Option(help="The budget in steps, of all environments together.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="The budget in minutes of processor time; training uses one core.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and exploration, not of the cases.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, without progress.")] = False,
) -> None:
    """Train a baseline (PPO or SAC) on public train cases, and write it as a policy that needs only numpy."""
    budget = budget_of(episodes, steps, minutes)
    spec = catalog.load(name)
    chosen = algorithm_named(algorithm) if algorithm else fitting(spec.name)
    refuse_occupied(output)
    with interruptible(), _show_progress(f"{chosen.upper()} {budget}", quiet=as_json) as observe:
        document = export(learn(spec, chosen, budget, seed, observe), output)
    if as_json:
        print_json(document)
    else:
        _print(document, output)


@contextmanager
def _show_progress(title: str, *, quiet: bool) -> "Iterator[Callable[[TrainingProgress], None]]":
    """Show training progress on stderr; yield the function to call with it."""
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with View(TextColumn("{task.description}"), *columns, console=err(), disable=quiet) as view:
        task = view.add_task(title, total=1.0, note="")

        def observe(progress: "TrainingProgress") -> None:
            if progress.steps % REFRESH_STEPS == 0 or progress.done >= 1:
                last = progress.returns[-MEAN_EPISODES:]
                mean = number(sum(last) / len(last)) if last else "-"
                note = f"{progress.steps:,} steps, {len(progress.returns):,} episodes, mean return of the last {mean}"
                view.update(task, completed=progress.done, note=note)

        yield observe


def _print(document: dict[str, Any], directory: Path) -> None:
    first, last = (number(document[f"mean_return_of_{which}_episodes"]) for which in ("first", "last"))
    played = f"{document['episodes']:,} episodes, {document['steps']:,} steps, {document['updates']:,} updates"
    agent_options = f"--agent policy --option project={shell_word(directory)} --model {shell_word(document['label'])}"
    lines = (
        f"{document['label']}: {played}, {document['processor_seconds']} s of processor time",
        f"mean return of the first episodes {first}, of the last {last}",
        f"policy: {directory}",
        f"score it: evopolicygym run {shell_word(document['environment'])} {agent_options} --budget 1 --validation 1",
    )
    for line in lines:
        out().print(Text(line), soft_wrap=True)
