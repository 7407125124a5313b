"""A run, from opening to score; and resuming one where its journal stands."""

import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from evopolicygym.agents.base import make
from evopolicygym.core import cases
from evopolicygym.core.agent import Agent, EnvironmentSpecificAgent, InterfaceAgent, PriceSnapshot, rules_of
from evopolicygym.core.cases import PROTOCOL_VERSION, SplitSource
from evopolicygym.core.errors import AgentError, EnvironmentFault, RecordError, SandboxError, StorageError, UsageError
from evopolicygym.core.event import Event, RunOpened, RunResumed, RunStopped, StopReason
from evopolicygym.core.interface import draw_interface, interface_key
from evopolicygym.core.options import LOCAL
from evopolicygym.core.rollout import Executor, ExecutorInfo, other_code
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.task import Memory, Task
from evopolicygym.core.text import now
from evopolicygym.judge.rollouts import EpisodeJobBuilder, Rollouts, finalize
from evopolicygym.judge.server import JudgeServer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.feedback import feedback_read_only
from evopolicygym.records.paths import RunPaths, run_directory
from evopolicygym.records.reader import read_run
from evopolicygym.records.rollback_guard import check_state_dir_writable, create_guard
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.films.filming import LocalCamera, camera_variables
from evopolicygym.runs import experiment, workspace
from evopolicygym.runs.anchors import measure_world_anchors
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.preflight import (
    agent_sha256,
    changed_program,
    check_agent,
    config_for_resume,
    is_pinned,
    open_executor,
    price_of,
    refuse_memory,
    refuse_open_sandbox,
    refuse_packages,
    refuse_program,
    refuse_unknown,
    try_packages,
)
from evopolicygym.runs.turns import run_agent_loop
from evopolicygym.runs.workspace import AgentWorkspace, SampleWorkspaces, open_workspace, refuse_occupied
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import guarantees
from evopolicygym.specs.catalog import import_from, spec_sha256

STOP_WORDS = 500
"""The most characters that are recorded of why a run was stopped."""
Observer = Callable[[Event, RunState], None]
"""Called with every event after it is recorded, and the state after it."""


def play(
    config: RunConfig,
    opened: Callable[[RunPaths, RunState], None],
    observer: Observer,
    agent: Agent | None = None,
    directory: Path | None = None,
) -> RunState:
    """Play a whole run and return its last state; ``opened`` is passed where its record lies as soon as there is one.

    ``agent`` plays in place of what the config's name stands for, where the name alone doesn't make it. It works in
    ``directory``, which is new or empty, where one is named, and else in the record's own workspace.
    """
    agent = agent or make(config.agent)
    if isinstance(agent, EnvironmentSpecificAgent):
        agent.refuse(config.task.environment.name)
    if directory:
        refuse_occupied(directory)
    if config.task.films:
        camera_variables(config.task.environment)
    if config.task.policy_packages:
        refuse_packages(config.task)
    price = price_of(config, agent)
    refuse_unknown(config)
    refuse_program(config, agent)
    refuse_memory(config, agent)
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    runs, environment = config.runs.resolve(), config.task.environment
    root = run_directory(runs, config.experiment, config.agent.name, environment.name, run_id)
    check_state_dir_writable()
    owner = experiment.begin(config.runs, config.experiment)
    if config.split is SplitSource.DIRECTORY:
        if config.split_directory is None:
            raise UsageError("A split of source 'directory' needs the directory.")
        experiment.keep_cases(owner, config.split_directory, config.task)
    with ExitStack() as stack:
        stack.callback(_forget_unopened, root)
        paths = RunPaths(root)
        workspace.create_workspace(paths, config.task.films, config.task.policy_packages)
        if config.task.memory is Memory.NONE:
            workspace.describe_sample(paths, config.task.budget)
        executor = stack.enter_context(
            open_executor(config, paths.workers, paths.simulator_log, owner.key(config.split))
        )
        if config.task.policy_packages:
            _offer_packages(paths, config.task, executor)
        refuse_open_sandbox(config.task, executor.grounds.isolation)
        config = replace(config, agent=replace(config.agent, program_sha256=agent_sha256(config.agent, agent)))
        grounds = _grounds(executor, root)
        if environment.world is not None:
            config = replace(config, task=_with_anchors(config, owner, executor))
        opening = _opening(config, owner, run_id, grounds, price)
        experiment.list_run(opening)
        writer = stack.enter_context(RunWriter(root, opening, create_guard(opening)))
        writer.listen(observer)
        opened(writer.paths, writer.state)
        return _to_the_end(writer, executor, owner, agent, directory)


def resume(  # noqa: PLR0913 - each is an argument of its own
    root: Path,
    workers: int | None,
    opened: Callable[[RunPaths, RunState], None],
    observer: Observer,
    executor_name: str = LOCAL,
    executor_address: str = "",
    *,
    trusted: bool = False,
    allow_changed_program: bool = False,
    agent: Agent | None = None,
    directory: Path | None = None,
) -> RunState:
    """Resume a run and return its last state; a finished run is left as it is.

    It goes on at the isolation level that it was begun at, or not at all. It may have been begun on another executor
    than the one that is named here: results don't depend on it. ``agent`` and ``directory`` are as for ``play``, but
    that the directory may hold the run's workspace; without it, the agent works where it did before.

    Raises ``UsageError`` where it was begun elsewhere, so that it may start somebody else's program, and is not
    ``trusted``, or where its agent's program is missing, or changed and not ``allow_changed_program``, which the
    record shows; ``RecordError`` where it is being played elsewhere, is broken, goes back behind what was played here,
    or was begun under other versions or another simulator's code.
    """
    root = root.resolve()
    record = read_run(root)
    state = record.state
    check_agent(root, state.opened, trusted=trusted)
    check_state_dir_writable()
    if state.stage is Stage.FINISHED:
        with RunWriter(root, guard=create_guard(state.opened)) as writer:
            writer.write_document()  # what may still be missing after the journal's last line
        opened(RunPaths(root), state)
        return state
    owner = experiment.of_run(root, state.opened)
    import_from(Path.cwd(), state.opened.task.environment)
    with ExitStack() as stack:
        writer = stack.enter_context(RunWriter(root, guard=create_guard(state.opened)))
        agent = agent or make(state.opened.agent)  # once the record is known to go on from where it was left here
        program = ""
        if state.stage is Stage.OPEN:
            if isinstance(agent, EnvironmentSpecificAgent):
                agent.refuse(state.opened.task.environment.name)
            program = changed_program(root, state, agent, allowed=allow_changed_program)
        config = config_for_resume(state.opened, workers, executor_name, executor_address)
        place, secret = writer.paths, owner.key(state.opened.split)
        executor = stack.enter_context(open_executor(config, place.workers, place.simulator_log, secret))
        check_fingerprint(state.opened, executor.grounds)
        job_builder(state, owner)
        writer.record(RunResumed(now(), program))
        writer.listen(observer)
        opened(writer.paths, writer.state)
        return _to_the_end(writer, executor, owner, agent, directory)


def job_builder(state: RunState, owner: experiment.Experiment) -> EpisodeJobBuilder:
    """Return what deals a run's cases; raise ``RecordError`` where they are not those that it committed to."""
    environment, opened = state.opened.task.environment.name, state.opened
    case_set = owner.cases(environment, opened.split)
    if cases.commitment(case_set, cases.salt(owner.key(opened.split), environment)) != opened.commitment:
        raise RecordError("The secret's cases are not those that the run committed to when it was opened.")
    if opened.interface != _drawn_again(opened, owner):
        raise RecordError("The run's interface is not the one that the experiment's secret draws.")
    return EpisodeJobBuilder(case_set, owner.key(opened.split), opened.seed)


def _drawn_again(opened: RunOpened, owner: experiment.Experiment) -> Mapping[str, Any]:
    """Return the interface that an experiment's secret draws for the spaces that a run recorded."""
    recorded, environment = opened.interface, opened.task.environment
    if not recorded:
        return {}
    key = interface_key(owner.key(opened.split), environment.name)
    schemas = recorded["observation"]["schema"], recorded["action"]["schema"]
    return draw_interface(key, opened.task.interface, *schemas, environment.reward_components)


def _to_the_end(
    writer: RunWriter, executor: Executor, owner: experiment.Experiment, agent: Agent, directory: Path | None = None
) -> RunState:
    deal = job_builder(writer.state, owner)
    try:
        if writer.state.stage is Stage.OPEN:
            _evolve(Rollouts(writer, executor, deal, camera=_camera(writer.state.opened)), agent, directory)
        finalize(Rollouts(writer, executor, deal))
    except BaseException as error:
        _note_stop(writer, error)
        again = f"evopolicygym {writer.state.opened.agent.resumed_by} {quote(str(writer.paths.root))}"
        hint = f"Nothing is lost; once fixed, go on with: {again}"
        if isinstance(error, AgentError | EnvironmentFault | SandboxError | StorageError):
            raise type(error)(f"{error}\n{hint}") from error
        if isinstance(error, OSError):
            raise StorageError(f"The run was stopped, as the system refused what it needs: {error}.\n{hint}") from error
        raise
    return writer.state


def _note_stop(writer: RunWriter, error: BaseException) -> None:
    """Record that the run is stopped, where that can still be written."""
    match error:
        case EnvironmentFault():
            reason = StopReason.ENVIRONMENT
        case SandboxError():
            reason = StopReason.SANDBOX
        case AgentError():
            reason = StopReason.AGENT
        case StorageError() | OSError():
            reason = StopReason.STORAGE
        case KeyboardInterrupt() | SystemExit():
            reason = StopReason.INTERRUPTED
        case _:
            reason = StopReason.ERROR
    message = "" if reason is StopReason.INTERRUPTED else f"{type(error).__name__}: {error}"[:STOP_WORDS]
    with suppress(OSError, RecordError, StorageError):
        # An interruption may have come between the writing of an event and the knowing of it: the disk knows better.
        if read_run(writer.paths.root).state.stage is not Stage.FINISHED:
            writer.record(RunStopped(now(), reason, message))
            writer.write_document()


def _evolve(rollouts: Rollouts, agent: Agent, directory: Path | None) -> None:
    """Let the agent submit until the budget is spent or its turns are over; it is gone when this returns."""
    writer = rollouts.writer
    paths, limits = writer.paths, writer.state.opened.task.limits
    if isinstance(agent, InterfaceAgent):
        agent.know(writer.state.opened.task.environment.name, writer.state.opened.interface)
    latest = writer.state.submissions[-1].charged.checkpoint if writer.state.submissions else ""
    writer.write_document()
    with ExitStack() as stack:
        stack.enter_context(feedback_read_only(paths))
        place: AgentWorkspace | SampleWorkspaces
        if writer.state.opened.task.memory is Memory.NONE:
            place = SampleWorkspaces(paths)
        else:
            place = stack.enter_context(open_workspace(paths, directory, latest))
        capture = partial(place.capture, limits)
        session = stack.enter_context(JudgeSession(rollouts, capture, place.deliver, rules_of(agent)))
        server = stack.enter_context(JudgeServer(session))
        run_agent_loop(session, server, agent, place.open)
        session.raise_fault()
        session.close()


def _camera(opened: RunOpened) -> LocalCamera | None:
    if not opened.task.films:
        return None
    schemas = opened.observation_schema, opened.action_schema
    return LocalCamera(opened.task.environment, *schemas, pinned=is_pinned(opened), interface=opened.interface)


def _with_anchors(config: RunConfig, owner: experiment.Experiment, executor: Executor) -> Task:
    """Return a run's task with the anchors of its world, measured on its held-out cases, which nothing charges."""
    spec = config.task.environment
    dealt = EpisodeJobBuilder(owner.cases(spec.name, config.split), owner.key(config.split), run_seed=0)
    return replace(config.task, environment=measure_world_anchors(executor, spec, dealt, config.task.held_out_cases))


def _opening(
    config: RunConfig, owner: experiment.Experiment, run_id: str, grounds: ExecutorInfo, price: PriceSnapshot | None
) -> RunOpened:
    environment = config.task.environment
    case_set = owner.cases(environment.name, config.split)
    return RunOpened(
        time=now(),
        run_id=run_id,
        protocol_version=PROTOCOL_VERSION,
        task=config.task,
        agent=config.agent,
        seed=config.seed,
        split=config.split,
        experiment=owner.identity,
        commitment=cases.commitment(case_set, cases.salt(owner.key(config.split), environment.name)),
        versions=grounds.versions,
        spec_sha256=spec_sha256(environment),
        isolation=grounds.isolation,
        findings=grounds.findings,
        observation_schema=grounds.observation_schema,
        action_schema=grounds.action_schema,
        price=price,
        simulator_code=grounds.simulator_code,
        interface=grounds.interface,
        revealed=config.split is not SplitSource.PUBLIC and experiment.is_revealed(config.runs, config.experiment),
    )


def _offer_packages(paths: RunPaths, task: Task, executor: Executor) -> None:
    """Try what policies may import besides, and lay it out for the agent; raise ``UsageError`` where that can't be."""
    try_packages(task, executor)
    if Guarantee.PROGRAM_ENCLOSED not in guarantees(executor.grounds.isolation):
        workspace.link_packages(paths, task.policy_packages)


def _grounds(executor: Executor, root: Path) -> ExecutorInfo:
    """Return what an executor found; where the simulator fails, all that it printed stays beside the run's place."""
    try:
        return executor.grounds
    except EnvironmentFault as error:
        printed, kept = RunPaths(root).simulator_log, root.with_name(f"{root.name}.log")
        if not printed.is_file() or not printed.stat().st_size:
            raise
        shutil.copyfile(printed, kept)
        raise EnvironmentFault(f"{error}\nThe whole of what it printed is kept in {kept}.") from error


def _forget_unopened(root: Path) -> None:
    """Leave nothing behind of a run that could not be opened, such as for a simulator that is not installed."""
    journal = RunPaths(root).journal
    if not journal.exists() or journal.stat().st_size == 0:
        shutil.rmtree(root, ignore_errors=True)


def check_fingerprint(opened: RunOpened, grounds: ExecutorInfo) -> None:
    """Refuse to go on under other versions, or another simulator's code, than the run was begun with."""
    check_protocol(opened)
    if dumps(opened.interface) != dumps(grounds.interface):
        raise RecordError("The spaces here are not those of which the run's interface was drawn.")
    if others := other_versions(opened, grounds.versions, grounds.simulator_code):
        raise RecordError(
            f"This is not what the run was begun with: {', '.join(others)}. Its numbers would not be comparable; "
            f"to resume it, install those versions again and restore code of your own as it was."
        )


def check_protocol(opened: RunOpened) -> None:
    """Refuse a run of another protocol."""
    if opened.protocol_version != PROTOCOL_VERSION:
        raise RecordError(
            f"The run was begun with protocol_version {opened.protocol_version}, here is {PROTOCOL_VERSION}: go on "
            f"with a version of evopolicygym that keeps that protocol."
        )


def other_versions(opened: RunOpened, here: Mapping[str, str], code: Mapping[str, str]) -> tuple[str, ...]:
    """Return, in words, the packages and the modules that are not as they were when the run was begun."""
    names = sorted(opened.versions.keys() | here.keys())
    pairs = {name: (opened.versions.get(name, "absent"), here.get(name, "absent")) for name in names}
    others = [f"{name} {then} then, {now} here" for name, (then, now) in pairs.items() if then != now]
    changed = other_code(code, opened.simulator_code)
    return (*others, *(f"code of {item.module}: {item.there} then, {item.here} here" for item in changed))
