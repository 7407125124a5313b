"""Checks before a run is opened, resumed or replayed, and the values that the run directory records from them.

They cover the executor and the isolation, the packages that policies may import, the agent's program and its hash, the
price of its model, and the origin of a run directory. A run directory names programs: its agent or the agent's command,
and a simulator with its arguments. They start only if this user started the run on this machine, which its high-water
mark shows, or with ``--trust``. Policies need no such check, because no run directory can weaken their sandbox.
"""

import hashlib
import inspect
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evopolicygym.agents.base import AGENTS, make
from evopolicygym.agents.kit.session import FunctionAgent
from evopolicygym.core.agent import (
    Agent,
    AgentConfig,
    ForgetfulAgent,
    OutputReader,
    PriceSnapshot,
    ProgramAgent,
    Rates,
    Tier,
)
from evopolicygym.core.errors import RecordError, SandboxError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.interface import InterfaceDraw, interface_key
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Executor
from evopolicygym.core.run import RunState
from evopolicygym.core.task import EnvironmentSpec, Memory, PolicyContext, Task, TaskInterface
from evopolicygym.core.text import now, printable, shell_word
from evopolicygym.environments.derived import pack_spec
from evopolicygym.environments.versions import simulators_of
from evopolicygym.records import rollback_guard
from evopolicygym.records.reader import JOURNAL
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig
from evopolicygym.runs.config import RunConfig
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import BACKENDS, guarantees, program_sandbox, resolve_isolation
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
"""A policy that loads if at least one module of a distribution can be imported; some modules are optional."""
MAX_PROGRAM_FILES, MAX_PROGRAM_BYTES = 10_000, 256 << 20
"""Limits of the files that are hashed; a larger program has no hash."""
PRICE_SOURCE = "genai-prices"
RATE_NAMES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
"""Names of rates, with their names in ``genai-prices``."""
TRUST = "--trust"
"""The option that allows the programs of a run directory from elsewhere."""


def refuse_unknown(config: RunConfig) -> None:
    """Raise ``UsageError`` if the sandbox backend, executor or tracker is unknown; none is created."""
    EXECUTORS.load(config.executor)
    refuse_unknown_tracker(config.track)
    name = resolve_isolation(config.isolation).backend
    if name != AUTO:
        BACKENDS.load(name)


def refuse_program(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` if the agent starts a program that the chosen isolation can't sandbox."""
    if isinstance(agent, ProgramAgent) and agent.starts_program and resolve_isolation(config.isolation).backend != AUTO:
        try:
            program_sandbox(config.isolation)
        except SandboxError as error:
            raise UsageError(f"The agent {config.agent.name!r} is a program. {error}") from error


def refuse_unsuitable(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` if an agent can't play with the run's feedback or memory, or an option excludes it."""
    _refuse_feedback(config, agent)
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


def _refuse_feedback(config: RunConfig, agent: Agent) -> None:
    """Raise ``UsageError`` if an agent needs more feedback than its run has."""
    if isinstance(agent, OutputReader) and agent.reads_output and not config.task.feedback.shows_episodes:
        raise UsageError(
            f"Invalid feedback: expected full or traces for the agent {config.agent.name!r}, which reads what its "
            f"policies print of their observations, got returns."
        )


def refuse_open_sandbox(task: Task, isolation: str) -> None:
    """Raise ``UsageError`` if an agent without memory could leave files for its next conversation."""
    if task.memory is Memory.NONE and Guarantee.PROGRAM_ENCLOSED not in guarantees(isolation):
        raise UsageError(
            f"--memory none needs a sandbox in which a program leaves no files behind; the isolation {isolation} has "
            f"none. Use --isolation bubblewrap."
        )


def config_for_resume(
    opened: RunOpened, workers: int | None, executor: str, address: str, isolation: str | None = None
) -> RunConfig:
    """Return the configuration to resume or replay a run, unchanged in everything that affects results.

    ``isolation`` defaults to the recorded one. Raises ``RecordError`` if packages that its policies may import are
    missing or have other versions.
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
    """Return whether a run has pinned arithmetic; older runs continue without it."""
    return ARITHMETIC in opened.findings


@contextmanager
def open_executor(config: RunConfig, scratch: Path, log: Path, secret: bytes) -> Iterator[Executor]:
    """Create a run's executor and close it when the context ends.

    ``scratch`` is a directory that the executor creates and removes, ``log`` the file for the output of simulators and
    sandboxes. An interface is drawn from the experiment's ``secret``.
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
    """Cap the number of workers at one per core and one per episode, with a note if that is fewer.

    The executor of a cluster determines its own limit.
    """
    if workers is None or executor != LOCAL:
        return workers
    cores = len(os.sched_getaffinity(0))
    episodes = max(task.budget.episodes, task.validation_cases, task.held_out_cases) if task else cores
    limit = min(cores, episodes)
    if workers > limit:
        why = f"{cores} cores" if limit == cores else f"{episodes} episodes at once"
        on_note(f"--workers {workers}: only {limit} are started, for {why}.")
    return min(workers, limit)


def refuse_packages(task: Task) -> None:
    """Raise ``UsageError`` if a task's policy packages are not allowed or not installed."""
    spec = task.environment
    refuse_simulators(task.policy_packages, ("gymnasium", *spec.packages), hidden_modules(simulators_of(spec)))
    for name in task.policy_packages:
        modules_of(name)


def try_packages(task: Task, executor: Executor) -> None:
    """Import a task's policy packages in the sandbox; raise ``UsageError`` if that fails."""
    info = executor.info
    schemas = info.observation_schema, info.action_schema
    context = PolicyContext(task.environment.name, 0, 1, 0, task.environment.max_steps, *schemas)
    for name in task.policy_packages:
        with tempfile.TemporaryDirectory(prefix="evopolicygym-packages-") as scratch:
            system = Path(scratch, "system")
            system.mkdir()
            (system / "policy.py").write_text(TRIAL_POLICY.format(modules=modules_of(name)), encoding="utf-8")
            checkpoint = capture(system, Path(scratch, "checkpoints"), task.limits)
            error = executor.load(Path(scratch, "checkpoints", checkpoint), context)
        if error:
            raise UsageError(
                f"Invalid policy package {name!r}: it can't be imported in the policies' sandbox (isolation "
                f"{info.isolation}): {error.status}: {error.message}. docs/reference/security.md lists the "
                f"allowed system calls; the memory limit is {task.limits.memory_mb} MiB. Leave the package out."
            )


def refuse_changed_packages(opened: RunOpened) -> None:
    """Raise ``RecordError`` if a run's policy package is missing here or has another version."""
    for name in opened.task.policy_packages:
        recorded, here = opened.versions.get(name, "?"), installed_version(name)
        if here != recorded:
            reason = f"here is {here}" if here else "it is not installed here"
            raise RecordError(
                f"The run's policies may import {name} {recorded}, and {reason}: what they play would not be the same. "
                f"Install {name}=={recorded} to go on or to play it again."
            )


def agent_sha256(config: AgentConfig, agent: Agent) -> str:
    """Return the hash of an agent's program or source; empty for shipped agents and unknown sources."""
    if isinstance(agent, FunctionAgent):
        return _source_sha256(agent.function)
    if ":" in config.name:
        return _source_sha256(inspect.getmodule(AGENTS.load(config.name)))
    return program_sha256(config.command)


def check_program(root: Path, state: RunState, agent: Agent, *, allowed: bool) -> str:
    """Return the hash of an agent's program if it changed since the run; otherwise an empty text.

    Raises ``UsageError`` if it changed without being ``allowed``, or is missing.
    """
    config, here = state.opened.agent, agent_sha256(state.opened.agent, agent)
    if not state.program_sha256 or here == state.program_sha256:
        return ""
    if here and allowed:
        return here
    missing = [word for word in config.command if Path(word).is_absolute() and not Path(word).exists()]
    if missing:
        raise UsageError(f"The agent's program is missing: {missing[0]} does not exist. Restore it, then resume.")
    if not here:
        raise UsageError(
            f"The source of the agent {config.entry!r} can't be read, so it can't be compared with the one that the "
            f"run began with. Give the agent from a file."
        )
    raise UsageError(
        f"The program of the agent {config.entry!r} is not the one that the run was played with: its SHA-256 was "
        f"{state.program_sha256[:12]}…, it is {here[:12]}…. Put the old one back, or continue with the new one, which "
        f"the record will show: evopolicygym resume {shell_word(root)} --allow-changed-program"
    )


def program_sha256(command: Sequence[str]) -> str:
    """Return the SHA-256 of files and directories that a command names by absolute path, and of its scripts' imports.

    Empty if it names none, if they are too many or too large, or if one can't be read.
    """
    digest = hashlib.sha256()
    try:
        named = [Path(word) for word in command if Path(word).is_absolute()]
        files = [file for root in (*named, *modules_beside(command)) for file in _program_files(root)]
        if (
            not files
            or len(files) > MAX_PROGRAM_FILES
            or sum(path.stat().st_size for _, path in files) > MAX_PROGRAM_BYTES
        ):
            return ""
        for relative_path, path in files:
            content = path.read_bytes()
            digest.update(f"{relative_path}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    except OSError:
        return ""
    return digest.hexdigest()


def _source_sha256(source: object) -> str:
    """Return the hash of a function's or module's source; empty if there is none, as at a prompt."""
    try:
        return hashlib.sha256(inspect.getsource(source).encode()).hexdigest()  # type: ignore[arg-type] # or TypeError
    except (OSError, TypeError):
        return ""


def _program_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield files in order with their paths below ``root``, without compiled Python files."""
    if root.is_file():
        yield root.name, root
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path


def resolve_price(config: RunConfig, agent: Agent) -> PriceSnapshot | None:
    """Return the price of a run's model; None if it is unknown.

    Raises ``UsageError`` for limits that can't be enforced: cost or tokens without a model proxy, cost without a price.
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
    price = known_price(config, url)
    if price is None and allowance.cost is not None:
        raise UsageError(
            f"--max-cost needs a price, and that of {config.agent.model!r} at this server is not known. Give it in USD "
            f"for a million tokens: --price input=1.25,cached_input=0.125,output=10."
        )
    return price


def known_price(config: RunConfig, url: str) -> PriceSnapshot | None:
    """Return the price that the user gave, else the model's at its server; None if unknown or without a server."""
    return config.price or (look_up_price(config.agent.model, url) if url else None)


def missing_price_warning(agent: AgentConfig, price: PriceSnapshot | None) -> str:
    """Return a warning if the price of an agent's model is unknown; otherwise an empty text."""
    if price or not _model_url(make(agent)):
        return ""
    return (
        f"the price of the model {agent.model!r} at its server is not known, so cost is not counted; give it with "
        f"--price, or as price in a suite's file (prices that are known come with evopolicygym[agents])."
    )


def look_up_price(model: str, url: str) -> PriceSnapshot | None:
    """Return a model's price at a server from ``genai-prices``; None if unknown or not installed."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ModuleNotFoundError:
        return None
    try:
        _, model_info = get_snapshot().find_provider_model(model, None, None, url)
        return _price_snapshot(model, model_info.get_prices(datetime.fromisoformat(now())))
    except (LookupError, ValueError, TypeError, AttributeError):
        return None


def _model_url(agent: Agent) -> str:
    """Return the URL of an agent's model behind the proxy; empty for an agent without one."""
    return str(getattr(agent, "model_url", ""))


def _price_snapshot(model: str, prices: Any) -> PriceSnapshot | None:  # noqa: ANN401 - depends on the version of genai-prices
    named = {name: getattr(prices, attribute, None) for name, attribute in RATE_NAMES.items()}
    if named["input"] is None or named["output"] is None:
        return None
    thresholds = sorted({tier.start for price in named.values() for tier in getattr(price, "tiers", ())})
    tiers = tuple(Tier(above, _rates(named, above)) for above in thresholds)
    return PriceSnapshot(model, f"{PRICE_SOURCE} {version(PRICE_SOURCE)}", now(), _rates(named, None), tiers)


def _rates(named: dict[str, Any], above: int | None) -> Rates:
    """Return the rates below all tiers, or those above a number of tokens."""
    rates: dict[str, float] = {}
    for name, price in named.items():
        if price is not None:
            prices = [tier.price for tier in getattr(price, "tiers", ()) if above is not None and tier.start <= above]
            rates[name] = float(prices[-1] if prices else getattr(price, "base", price))
    return Rates(**rates)


def check_agent(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Raise ``UsageError`` if resuming a run would start a program that someone else named, unless trusted."""
    if trusted or rollback_guard.has_mark(root):
        return
    agent = opened.agent
    command = f", which runs the command: {shlex.join(agent.command)}" if agent.command else ""
    raise UsageError(
        f"{root} was not started on this machine by this user. Resuming it would start its agent "
        f" {printable(agent.name)!r}{printable(command)}; isolation {printable(opened.isolation)!r}, "
        f"environment {_describe_environment(opened.task.environment)}. If you trust its author, add {TRUST}. "
        f"To read it without starting anything: show, verify, diagnose, view."
    )


def check_simulator(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Raise ``UsageError`` if playing a record's cases would run an unknown simulator, unless trusted.

    A spec can import any installed module and pass any arguments to it.
    """
    spec = opened.task.environment
    if trusted or is_known_environment(spec) or rollback_guard.is_own_run(root):
        return
    raise UsageError(
        f"{root} was played on the environment {_describe_environment(spec)}, which is unknown here (evopolicygym "
        f"environments, evopolicygym packs), and the run was not started on this machine by this user. Playing its "
        f"cases would run that simulator with your rights. If you trust its author, add {TRUST}."
    )


def import_for_record(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Let modules of a record's own task be imported from the working directory, for a run that was played here.

    Also for a ``trusted`` one. Never from a run's directory, where an agent writes, and never a module that a known
    environment or pack names: it is imported from where it is installed.
    """
    spec, directory = opened.task.environment, Path.cwd()
    if not spec.registering_modules or is_known_environment(spec):
        return
    if any((path / JOURNAL).exists() for path in (directory, *directory.parents)):
        return
    named = {name.partition(".")[0] for name in spec.registering_modules} - {"evopolicygym"}  # which makes pickled ones
    if (trusted or rollback_guard.is_own_run(root)) and _known_modules().isdisjoint(named):
        catalog.import_from(directory, spec)


@cache
def _known_modules() -> frozenset[str]:
    """Return the modules that known environments and packs import, with all their parents."""
    specs = [catalog.load(name) for name in catalog.names()]
    named = [*(name for spec in specs for name in spec.registering_modules)]
    for pack in pack_catalog.readable():
        named += pack.imports
        named += [task.id.rpartition(":")[0] for task in pack.tasks if ":" in task.id]
    return frozenset(name.partition(".")[0] for name in named)


def needs_probe(spec: EnvironmentSpec) -> bool:
    """Return whether nobody has looked yet whether an environment repeats, as was done for what ships."""
    is_ours = catalog.is_built_in(spec.name) or pack_catalog.find_listed(spec.name) is not None
    return not (is_ours and is_known_environment(spec))


def is_known_environment(spec: EnvironmentSpec) -> bool:
    """Return whether a spec runs the same code with the same arguments as the known environment of its name."""
    if spec.name in catalog.names():
        return _simulator_arguments(spec) == _simulator_arguments(catalog.load(spec.name))
    match = pack_catalog.find_listed(spec.name)
    return match is not None and _simulator_arguments(spec) == _simulator_arguments(pack_spec(*match))


def _simulator_arguments(spec: EnvironmentSpec) -> tuple[Any, ...]:
    """Return what determines the code that runs, its Python and its arguments."""
    return spec.id, spec.imports, spec.arguments, spec.pack


def _describe_environment(spec: EnvironmentSpec) -> str:
    imports = f", which imports {', '.join(spec.imports)}" if spec.imports else ""
    return printable(f"{spec.name!r} (gymnasium's {spec.id!r}{imports})")
