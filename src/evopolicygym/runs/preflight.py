"""Checks before a run is opened, resumed or replayed, and what the run directory then says of them.

They cover the executor and the isolation, the packages that policies may import, the agent's program and its hash, the
price of its model, and where a run directory comes from. A run directory names programs: its agent, the command of one,
and a simulator with its arguments. Those of a run that this user began on this machine, as its high-water mark says,
are the user's own choice; others start only with ``--trust``. Policies don't matter here: they play in a sandbox, at an
isolation that no run directory lowers.
"""

import hashlib
import inspect
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any

from evopolicygym.agents.base import AGENTS, make
from evopolicygym.agents.kit.session import FunctionAgent
from evopolicygym.core.agent import Agent, AgentConfig, ForgetfulAgent, PriceSnapshot, ProgramAgent, Rates, Tier
from evopolicygym.core.errors import RecordError, SandboxError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.interface import InterfaceDraw, interface_key
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Executor
from evopolicygym.core.run import RunState
from evopolicygym.core.task import EnvironmentSpec, Memory, PolicyContext, Task, TaskInterface
from evopolicygym.core.text import now, printable
from evopolicygym.environments.derived import pack_spec
from evopolicygym.environments.versions import simulators_of
from evopolicygym.records import rollback_guard
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig
from evopolicygym.runs.config import RunConfig
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import BACKENDS, guarantees, named, program_sandbox
from evopolicygym.sandbox.packages import installed_version, modules_of, refuse_simulators
from evopolicygym.sandbox.program.view import modules_beside
from evopolicygym.sandbox.simulators import hidden_modules
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.tracking.tracker import refuse_unknown_tracker

TRIAL_POLICY = """\
from importlib import import_module

errors = []
for name in {modules}:
    try:
        import_module(name)
    except Exception as error:
        errors.append(f"{{name}}: {{type(error).__name__}}: {{error}}")
if len(errors) == len({modules}):
    raise ImportError("; ".join(errors))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass
"""
"""A policy that can be loaded where any module of a distribution can be imported; some bring optional ones."""
MOST_PROGRAM_FILES, MOST_PROGRAM_BYTES = 10_000, 256 << 20
"""What is read of a command's files and directories; a larger program has no hash."""
PRICE_SOURCE = "genai-prices"
RATE_NAMES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
"""Names of rates here, and those of ``genai-prices``."""
TRUST = "--trust"
"""The option by which a user says that what a record names may be run."""


def refuse_unknown(config: RunConfig) -> None:
    """Raise ``UsageError`` where a level, an executor or a tracker is named that there isn't; none is made here."""
    EXECUTORS.load(config.executor)
    refuse_unknown_tracker(config.track)
    name = named(config.isolation).backend
    if name != AUTO:
        BACKENDS.load(name)


def refuse_program(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` where an agent starts a program, and the isolation that is asked for keeps none in."""
    if isinstance(agent, ProgramAgent) and agent.starts_program and named(config.isolation).backend != AUTO:
        try:
            program_sandbox(config.isolation)
        except SandboxError as error:
            raise UsageError(f"The agent {config.agent.name!r} is a program. {error}") from error


def refuse_memory(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` where a run is to take independent samples, and the agent or an option doesn't allow it."""
    task = config.task
    if task.memory is Memory.FULL:
        return
    if not (isinstance(agent, ForgetfulAgent) and agent.forgets):
        raise UsageError(
            f"Invalid memory: the agent {config.agent.name!r} can't play without memory, as it has no conversations "
            f"with a model that could begin anew. Use --memory full, or neutral, a command-line tool, or a program "
            f"with --model-url."
        )
    if task.budget.max_per_submission is None:
        raise UsageError(
            "Missing max_episodes: with --memory none each conversation makes one submission of at most so many "
            "episodes. Example: --budget 128 --max-episodes 8 for 16 samples or more."
        )
    for name, asked in (("films", task.films), ("finish", task.finish_allowed)):
        if asked:
            raise UsageError(f"--{name} and --memory none are mutually exclusive: a conversation ends as it submits.")


def refuse_open_sandbox(task: Task, isolation: str) -> None:
    """Raise ``UsageError`` where an agent without memory could leave something to its next conversation."""
    if task.memory is Memory.NONE and Guarantee.PROGRAM_ENCLOSED not in guarantees(isolation):
        raise UsageError(
            f"--memory none needs a sandbox in which a program leaves no files behind; the isolation {isolation} has "
            f"none. Use --isolation bubblewrap."
        )


def config_for_resume(
    opened: RunOpened, workers: int | None, executor: str, address: str, isolation: str | None = None
) -> RunConfig:
    """Return the configuration to resume or replay a run with: all that results depend on is as it was.

    The isolation is the recorded one where none is named; a replay of somebody else's run names one. Raises
    ``RecordError`` where what its policies may import isn't here as it was.
    """
    refuse_changed_packages(opened)
    return RunConfig(
        opened.task,
        opened.agent,
        workers=workers,
        isolation=isolation or opened.isolation,
        executor=executor,
        executor_address=address,
        pinned=is_pinned(opened),
    )


def is_pinned(opened: RunOpened) -> bool:
    """Return whether a run is played with pinned arithmetic: those from before it was pinned go on as they were."""
    return ARITHMETIC in opened.findings


@contextmanager
def open_executor(config: RunConfig, scratch: Path, log: Path, secret: bytes) -> Iterator[Executor]:
    """Make the executor that a run's options name, and close it when the context ends.

    ``scratch`` is a directory that it makes and removes, ``log`` the file that simulators and sandboxes print into. An
    interface is drawn from the experiment's ``secret``.
    """
    task, level = config.task, config.task.interface
    is_standard = level is TaskInterface.STANDARD
    executor: Executor = EXECUTORS.load(config.executor)(
        ExecutorConfig(
            spec=task.environment,
            limits=task.limits,
            isolation=config.isolation,
            scratch=scratch,
            log=log,
            workers=config.workers,
            address=config.executor_address,
            pinned=config.pinned,
            policy_packages=task.policy_packages,
            interface=None if is_standard else InterfaceDraw(level, interface_key(secret, task.environment.name)),
        )
    )
    with closing(executor):
        yield executor


def cap_workers(
    workers: int | None, executor: str, on_note: Callable[[str], object], task: Task | None = None
) -> int | None:
    """Return how many workers start here: at most one a core and one an episode, with a note where that is fewer.

    What a cluster has is for its executor to know.
    """
    if workers is None or executor != LOCAL:
        return workers
    cores = len(os.sched_getaffinity(0))
    episodes = max(task.budget.episodes, task.validation_cases, task.held_out_cases) if task else cores
    most = min(cores, episodes)
    if workers > most:
        why = f"{cores} cores" if most == cores else f"{episodes} episodes at once"
        on_note(f"--workers {workers}: only {most} are started, for {why}.")
    return min(workers, most)


def refuse_packages(task: Task) -> None:
    """Raise ``UsageError`` where policies may not import what a task names, or it isn't installed here."""
    spec = task.environment
    refuse_simulators(task.policy_packages, ("gymnasium", *spec.packages), hidden_modules(simulators_of(spec)))
    for name in task.policy_packages:
        modules_of(name)


def try_packages(task: Task, executor: Executor) -> None:
    """Have a policy import all that a task names; raise ``UsageError`` where the sandbox doesn't let it."""
    grounds = executor.grounds
    schemas = grounds.observation_schema, grounds.action_schema
    context = PolicyContext(task.environment.name, 0, 1, 0, task.environment.max_steps, *schemas)
    for name in task.policy_packages:
        with tempfile.TemporaryDirectory(prefix="evopolicygym-packages-") as place:
            system = Path(place, "system")
            system.mkdir()
            (system / "policy.py").write_text(TRIAL_POLICY.format(modules=modules_of(name)), encoding="utf-8")
            checkpoint = capture(system, Path(place, "checkpoints"), task.limits)
            error = executor.load(Path(place, "checkpoints", checkpoint), context)
        if error:
            raise UsageError(
                f"Invalid policy package {name!r}: it can't be imported in the policies' sandbox (isolation "
                f"{grounds.isolation}): {error.status}: {error.message}. A policy may ask no more of the system than "
                f"docs/reference/security.md lists, and has {task.limits.memory_mb} MiB; leave it out."
            )


def refuse_changed_packages(opened: RunOpened) -> None:
    """Raise ``RecordError`` where what a run's policies may import is missing here, or of another version."""
    for name in opened.task.policy_packages:
        then, here = opened.versions.get(name, "?"), installed_version(name)
        if here != then:
            found = f"here is {here}" if here else "it is not installed here"
            raise RecordError(
                f"The run's policies may import {name} {then}, and {found}: what they play would not be the same. "
                f"Install {name}=={then} to go on or to play it again."
            )


def agent_sha256(config: AgentConfig, agent: Agent) -> str:
    """Return the hash of what an agent is; empty where it comes with this package, or its source is not known."""
    if isinstance(agent, FunctionAgent):
        return _source_sha256(agent.function)
    if ":" in config.name:
        return _source_sha256(inspect.getmodule(AGENTS.load(config.name)))
    return program_sha256(config.command)


def changed_program(root: Path, state: RunState, agent: Agent, *, allowed: bool) -> str:
    """Return the hash of an agent's program where it isn't the one that the run was played with; else an empty text.

    Raises ``UsageError`` where it isn't, and that is not ``allowed``.
    """
    config, here = state.opened.agent, agent_sha256(state.opened.agent, agent)
    if not state.program_sha256 or here == state.program_sha256:
        return ""
    if here and allowed:
        return here
    gone = [word for word in config.command if Path(word).is_absolute() and not Path(word).exists()]
    if gone:
        raise UsageError(f"The agent's program is missing: {gone[0]} does not exist. Put it back, then resume the run.")
    if not here:
        raise UsageError(
            f"The source of the agent {config.entry!r} can't be read, so it can't be compared with the one that the "
            f"run began with. Give the agent from a file."
        )
    raise UsageError(
        f"The program of the agent {config.entry!r} is not the one that the run was played with: its SHA-256 was "
        f"{state.program_sha256[:12]}…, it is {here[:12]}…. Put the old one back, or continue with the new one, which "
        f"the record will show: evopolicygym resume {quote(str(root))} --allow-changed-program"
    )


def program_sha256(command: Sequence[str]) -> str:
    """Return the SHA-256 of the files that a command names by absolute path, and of those in directories that it names.

    What its scripts import from beside them is part of it.

    Empty where it names none, where they are too many or too large, or where one can't be read.
    """
    whole = hashlib.sha256()
    try:
        named = [Path(word) for word in command if Path(word).is_absolute()]
        files = [file for root in (*named, *modules_beside(command)) for file in _program_files(root)]
        if (
            not files
            or len(files) > MOST_PROGRAM_FILES
            or sum(path.stat().st_size for _, path in files) > MOST_PROGRAM_BYTES
        ):
            return ""
        for place, path in files:
            content = path.read_bytes()
            whole.update(f"{place}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    except OSError:
        return ""
    return whole.hexdigest()


def _source_sha256(source: object) -> str:
    """Return the hash of a function's or a module's source; empty where Python knows none, as at a prompt."""
    try:
        return hashlib.sha256(inspect.getsource(source).encode()).hexdigest()  # type: ignore[arg-type] # or TypeError
    except (OSError, TypeError):
        return ""


def _program_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield files in order, each with its place below the one that was named; not what Python compiled of them."""
    if root.is_file():
        yield root.name, root
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path


def price_of(config: RunConfig, agent: Agent) -> PriceSnapshot | None:
    """Return what a run's model costs; None where that is not known.

    Raises ``UsageError`` where a limit is asked for that can't be kept: of cost or tokens for an agent without a
    model proxy, of cost without a price.
    """
    url, allowance = _model_url(agent), config.agent.allowance
    if not url:
        if allowance.asks_usage or config.price:
            raise UsageError(
                f"Limits of cost or tokens, and a price, don't work with the agent {config.agent.name!r}: its model "
                f"isn't asked through a proxy that counts. Use --max-time or --max-turns; a program of yours gets one "
                f"by --model-url URL."
            )
        return None
    price = config.price or look_up_price(config.agent.model, url)
    if price is None and allowance.cost is not None:
        raise UsageError(
            f"--max-cost needs a price, and that of {config.agent.model!r} at this server is not known. Give it in USD "
            f"for a million tokens: --price input=1.25,cached_input=0.125,output=10."
        )
    return price


def unpriced(agent: AgentConfig, price: PriceSnapshot | None) -> str:
    """Return a warning where an agent asks a model whose price is not known; else nothing."""
    if price or not _model_url(make(agent)):
        return ""
    return (
        f"the price of the model {agent.model!r} at its server is not known, so cost is not counted; give it with "
        f"--price, or as price in a suite's file (prices that are known come with evopolicygym[agents])."
    )


def look_up_price(model: str, url: str) -> PriceSnapshot | None:
    """Return the price of a model at a server as ``genai-prices`` has it; None where it doesn't, or isn't installed."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ModuleNotFoundError:
        return None
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, url)
        return _price_snapshot(model, found.get_prices(datetime.fromisoformat(now())))
    except (LookupError, ValueError, TypeError, AttributeError):
        return None


def _model_url(agent: Agent) -> str:
    """Return where an agent's model is asked, through a proxy that counts; empty for an agent without one."""
    return str(getattr(agent, "model_url", ""))


def _price_snapshot(model: str, prices: Any) -> PriceSnapshot | None:  # noqa: ANN401 - another distribution's, of any version
    named = {name: getattr(prices, attribute, None) for name, attribute in RATE_NAMES.items()}
    if named["input"] is None or named["output"] is None:
        return None
    steps = sorted({tier.start for price in named.values() for tier in getattr(price, "tiers", ())})
    tiers = tuple(Tier(above, _rates(named, above)) for above in steps)
    return PriceSnapshot(model, f"{PRICE_SOURCE} {version(PRICE_SOURCE)}", now(), _rates(named, None), tiers)


def _rates(named: dict[str, Any], above: int | None) -> Rates:
    """Return the rates below all tiers, or those that hold above so many tokens."""
    rates: dict[str, float] = {}
    for name, price in named.items():
        if price is not None:
            fitting = [tier.price for tier in getattr(price, "tiers", ()) if above is not None and tier.start <= above]
            rates[name] = float(fitting[-1] if fitting else getattr(price, "base", price))
    return Rates(**rates)


def check_agent(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Raise ``UsageError`` where resuming a run would start what somebody else named, and nobody has allowed that."""
    if trusted or rollback_guard.has_mark(root):
        return
    agent = opened.agent
    command = f", which runs the command: {shlex.join(agent.command)}" if agent.command else ""
    raise UsageError(
        f"{root} was not begun on this machine by this user. Resuming it would "
        f"start its agent {printable(agent.name)!r}{printable(command)}; isolation {printable(opened.isolation)!r}, "
        f"environment {_describe_environment(opened.task.environment)}. If you trust whoever made it, add {TRUST}. "
        f"To look at it without starting anything: show, verify, diagnose, view."
    )


def check_simulator(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Raise ``UsageError`` where playing a record's cases would run a simulator that is not known here.

    A spec may import any module that is installed, and hand it anything.
    """
    spec = opened.task.environment
    if trusted or _is_known_environment(spec) or rollback_guard.is_own_run(root):
        return
    raise UsageError(
        f"{root} was played on an environment of its own, {_describe_environment(spec)}, which is not among those that "
        f"are known here (evopolicygym environments, evopolicygym packs), and the run was not begun on this machine by "
        f"this user. To play its cases would run that simulator with your rights. If you trust whoever made it, add "
        f"{TRUST}."
    )


def _is_known_environment(spec: EnvironmentSpec) -> bool:
    """Return whether a spec has the same code run, with the same arguments, as what has its name here."""
    if spec.name in catalog.names():
        return _simulator_arguments(spec) == _simulator_arguments(catalog.load(spec.name))
    found = pack_catalog.find_listed(spec.name)
    return found is not None and _simulator_arguments(spec) == _simulator_arguments(pack_spec(*found))


def _simulator_arguments(spec: EnvironmentSpec) -> tuple[Any, ...]:
    """Return all that decides which code runs, on which Python, and with which arguments."""
    return spec.id, spec.imports, spec.arguments, spec.pack


def _describe_environment(spec: EnvironmentSpec) -> str:
    imports = f", which imports {', '.join(spec.imports)}" if spec.imports else ""
    return printable(f"{spec.name!r} (gymnasium's {spec.id!r}{imports})")
