"""``evopolicygym train``: serve sessions that agents are trained on, or train a baseline by reinforcement learning."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
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
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AUTO
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import number, shell_word
from evopolicygym.specs import catalog
from evopolicygym.training.draw import HELD_OUT_CASES, VALIDATION_CASES
from evopolicygym.training.openenv import HAS_WEBSOCKETS
from evopolicygym.training.server import TrainingServer, data_row
from evopolicygym.training.sessions import SessionFactory, training_config

EXAMPLES = """
Examples:

evopolicygym train serve

evopolicygym train serve --task cartpole --task pendulum --interface anonymous --budget 16 --shaping validation

evopolicygym train serve --split evaluation --listen 0.0.0.0:8000 --allow-host trainer --sessions 512

evopolicygym train rows --seeds 0-99 -o rows.jsonl

evopolicygym train baseline acrobot --episodes 128 -o baselines/acrobot

evopolicygym train baseline reacher --algorithm sac --minutes 10 --seed 1 -o baselines/reacher

evopolicygym run reacher --agent policy --option project=baselines/reacher --model "SAC 10 minutes" --budget 1
"""
SEEDS = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
MOST_ROWS = 1_000_000
LARGEST_PORT = 65535
MEAN_EPISODES = 20
"""The latest episodes whose mean return is shown."""
REFRESH_STEPS = 100
"""Steps between updates of the view."""


app = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, rich_markup_mode="rich", add_completion=False)


@app.callback()
def train() -> None:
    """Serve sessions that agents are trained on, or train a baseline by reinforcement learning."""


@app.command(epilog=EXAMPLES)
def baseline(
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


Split = Annotated[
    str, typer.Option(help="train, evaluation, or benchmark, which has the tasks of Core16 and frontier16.")
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task of the split; may be given several times.")
]
Interfaces = Annotated[
    list[str] | None, typer.Option("--interface", help="Only this interface; may be given several times.")
]
Worlds = Annotated[
    list[str] | None,
    typer.Option("--world", help="noisy, late or stirred, besides or instead of standard; may be given several times."),
]
Texts = Annotated[list[str] | None, typer.Option("--text", help="Only this text, full or terse.")]
Budgets = Annotated[
    list[int] | None, typer.Option("--budget", help="Only this budget of 8 to 64 episodes; may be given several times.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Episodes that play at once.", show_default="one a core")]
Isolation = Annotated[str, typer.Option(help="The sandbox of policies.")]


@app.command(epilog=EXAMPLES)
def serve(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8000",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further host name that requests may use."),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Requests need no token; on 127.0.0.1 only.")] = False,
    split: Split = "train",
    task: Tasks = None,
    interface: Interfaces = None,
    world: Worlds = None,
    text: Texts = None,
    budget: Budgets = None,
    validation: Annotated[int, typer.Option(min=1, help="Hidden validation cases.")] = VALIDATION_CASES,
    held_out: Annotated[int, typer.Option(min=1, help="Hidden held-out cases.")] = HELD_OUT_CASES,
    shaping: Annotated[str, typer.Option(help="What a submission is worth: none, train or validation.")] = "train",
    price: Annotated[float, typer.Option(help="What the whole budget costs, from 0 to 1.")] = 0.0,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions open at once; further ones wait.")] = 256,
    idle: Annotated[float, typer.Option(help="Seconds without a request after which a session is closed.")] = 900.0,
    wait: Annotated[float, typer.Option(help="Seconds that an answer waits for what is played.")] = 30.0,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep each session's event log there.")] = None,
    workers: Workers = None,
    isolation: Isolation = AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve sessions that agents are trained on, by NeMo Gym's, verifiers' and OpenEnv's wires, until Ctrl-C."""
    host, port = _address(listen)
    options: dict[str, Any] = {
        **_distribution(split, task, interface, world, text, budget),
        "validation": validation,
        "held_out": held_out,
        "shaping": shaping,
        "price": price,
        "keep": keep,
        "sessions": sessions,
        "idle_s": idle,
        "wait_s": wait,
        "workers": workers,
        "isolation": isolation,
    }
    config = training_config(**options)
    with interruptible(), TrainingServer(config, host, port, "" if no_token else None, allow_host or ()) as server:
        if as_json:
            print_json({"url": server.url, "token": server.token, "split": split, "openenv": HAS_WEBSOCKETS})
        else:
            out().print(Text(f"training sessions: {server.url}"), soft_wrap=True)
            missing = "" if HAS_WEBSOCKETS else " (without OpenEnv: pip install 'evopolicygym[training]')"
            err().print(Text(f"split {split}; Ctrl-C ends it, and with it all sessions{missing}"), soft_wrap=True)
        with suppress(KeyboardInterrupt):
            server.wait()


@app.command(epilog=EXAMPLES)
def rows(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, one row a line.")],
    seeds: Annotated[str, typer.Option(metavar="FIRST-LAST", help="The seeds, one row each.")] = "0-99",
    split: Split = "train",
    task: Tasks = None,
    interface: Interfaces = None,
    world: Worlds = None,
    text: Texts = None,
    budget: Budgets = None,
    workers: Workers = None,
    isolation: Isolation = AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write data rows for NeMo Gym and verifiers; serve with the same options, from which seeds are drawn."""
    first, last = _seeds(seeds)
    if output.exists():
        raise UsageError(f"Invalid output {output}: expected a new file.")
    options = {**_distribution(split, task, interface, world, text, budget), "workers": workers, "isolation": isolation}
    factory = SessionFactory.of(training_config(**options))
    with interruptible(), closing(factory.pool), output.open("x", encoding="utf-8") as file:
        for seed in range(first, last + 1):
            file.write(dumps(data_row(seed, factory.task(seed))) + "\n")
    if as_json:
        print_json({"file": str(output), "rows": last - first + 1, "split": split})
    else:
        out().print(Text(f"{last - first + 1:,} rows: {output}"), soft_wrap=True)


def _distribution(
    split: str,
    tasks: list[str] | None,
    interfaces: list[str] | None,
    worlds: list[str] | None,
    texts: list[str] | None,
    budgets: list[int] | None,
) -> dict[str, Any]:
    given = {"tasks": tasks, "interfaces": interfaces, "worlds": worlds, "texts": texts, "budgets": budgets}
    return {"split": split, **{name: values for name, values in given.items() if values}}


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > LARGEST_PORT:
        raise UsageError(f"Invalid --listen {listen!r}: expected HOST:PORT, such as 127.0.0.1:8000.")
    return host, int(port)


def _seeds(seeds: str) -> tuple[int, int]:
    match = SEEDS.fullmatch(seeds)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if not first <= last < first + MOST_ROWS:
        raise UsageError(f"Invalid --seeds {seeds!r}: expected FIRST-LAST, such as 0-99, of at most {MOST_ROWS:,}.")
    return first, last
