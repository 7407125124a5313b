"""Playing a run from opening to score, and resuming it from its event log."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from evopolicygym.agents.base import make
from evopolicygym.core import cases
from evopolicygym.core.agent import (
    OUTSIDE,
    Agent,
    EnvironmentSpecificAgent,
    InterfaceAgent,
    PriceSnapshot,
    ProgramAgent,
    rules_of,
)
from evopolicygym.core.cases import PROTOCOL_VERSION, SplitSource
from evopolicygym.core.errors import AgentError, EnvironmentFault, RecordError, SandboxError, StorageError, UsageError
from evopolicygym.core.event import Event, RunOpened, RunResumed, RunStopped, StopReason
from evopolicygym.core.options import LOCAL
from evopolicygym.core.rollout import Executor, ExecutorInfo, other_code
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.shortage import shortage_as_error
from evopolicygym.core.storage import describe_storage
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.task import Memory, Task, TaskInterface
from evopolicygym.core.text import now, shell_word
from evopolicygym.environments.splits import read_directory
from evopolicygym.environments.trace import Probe, probe
from evopolicygym.judge.rollouts import EpisodeJobBuilder, Rollouts, finalize
from evopolicygym.judge.server import JudgeServer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records import experiment as experiments
from evopolicygym.records.feedback import feedback_read_only
from evopolicygym.records.paths import RunPaths, run_directory
from evopolicygym.records.reader import read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.records.rollback_guard import check_state_dir_writable, create_guard
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.films.filming import LocalCamera, camera_variables
from evopolicygym.runs import workspace
from evopolicygym.runs.anchors import measure_world_anchors
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.disk_forecast import refuse_full_disk
from evopolicygym.runs.preflight import (
    agent_sha256,
    check_agent,
    check_program,
    config_for_resume,
    import_for_record,
    is_pinned,
    needs_probe,
    open_executor,
    refuse_open_sandbox,
    refuse_packages,
    refuse_program,
    refuse_unknown,
    refuse_unsuitable,
    resolve_price,
    try_packages,
)
from evopolicygym.runs.provenance import agent_version, machine_findings, model_details, package_version
from evopolicygym.runs.turns import run_agent_loop
from evopolicygym.runs.workspace import (
    AgentWorkspace,
    SampleWorkspaces,
    leave_neutral_place,
    neutral_place,
    open_neutral_workspace,
    open_workspace,
    refuse_occupied,
)
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import guarantees
from evopolicygym.specs.catalog import spec_sha256

HIDDEN_PACE, HIDDEN_GRACE_S = 10.0, 20.0
"""A policy's time over a hidden episode, in multiples of its longest in training, and the seconds besides."""
STOP_MESSAGE_LENGTH = 500
"""The largest recorded length of the reason for a stop."""
Observer = Callable[[Event, RunState], None]
"""Called with every recorded event and the state after it."""


def play(
    config: RunConfig,
    opened: Callable[[RunPaths, RunState], None],
    observer: Observer,
    agent: Agent | None = None,
    directory: Path | None = None,
) -> RunState:
    """Play a run and return its final state; ``opened`` is called with its paths when it is opened.

    ``agent`` replaces the agent of the configured name. It works in ``directory``, which must be new or empty, or else
    in the run directory's workspace.
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
    price = resolve_price(config, agent)
    refuse_unknown(config)
    refuse_program(config, agent)
    refuse_unsuitable(config, agent)
    probed = probe(config.task.environment) if needs_probe(config.task.environment) else None
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    runs, environment = config.runs.resolve(), config.task.environment
    root = run_directory(runs, config.experiment, config.agent.name, environment.name, run_id)
    check_state_dir_writable()
    experiment = experiments.begin(config.runs, config.experiment, config.nonce, config.split)
    if config.split is SplitSource.DIRECTORY:
        if config.split_directory is None:
            raise UsageError("Missing split_directory: a split of source 'directory' needs one.")
        case_set = read_directory(config.split_directory, environment.name, environment.id)
        experiments.keep_cases(experiment, case_set, config.split_directory, config.task)
    with ExitStack() as stack:
        stack.enter_context(_opening(runs))
        stack.callback(_remove_unopened, root)
        paths = RunPaths(root)
        workspace.create_workspace(paths, config.task.films, config.task.policy_packages, config.task.feedback)
        if config.skill:
            workspace.add_skill(paths, config.skill, config.task.skill)
        if config.task.memory is Memory.NONE:
            workspace.describe_sample(paths, config.task.budget)
        executor = stack.enter_context(
            open_executor(config, paths.workers, paths.simulator_log, experiment.key(config.split))
        )
        if config.task.policy_packages:
            _prepare_packages(paths, config.task, executor)
        info = _executor_info(executor, root)
        refuse_open_sandbox(config.task, info.isolation)
        refuse_full_disk(config.task, info.observation_schema, root)
        config = replace(config, agent=replace(config.agent, program_sha256=agent_sha256(config.agent, agent)))
        if environment.world is not None:
            config = replace(config, task=_task_with_anchors(config, experiment, executor))
        if directory:  # again: minutes may have gone by
            refuse_occupied(directory)
        opening = _build_opened_event(config, agent, experiment, run_id, info, price, probed)
        experiments.list_run(opening)
        writer = stack.enter_context(RunWriter(root, opening, create_guard(opening)))
        writer.listen(observer)
        opened(writer.paths, writer.state)
        return _play_to_end(writer, executor, experiment, agent, directory)


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
    """Resume a run and return its final state; a finished run is left unchanged.

    It continues with the recorded isolation. Its executor may change, because results don't depend on it. ``agent`` and
    ``directory`` are as for ``play``, but the directory may contain the run's workspace; without it, the agent works
    where it did before.

    Raises ``UsageError`` if the run was started elsewhere and is not ``trusted``, because it can start someone else's
    program, or if its agent's program is missing, or changed without ``allow_changed_program``, which the record shows.
    Raises ``RecordError`` if it is being played by another process, is damaged, was rolled back, or was started with
    other versions or other code of the simulator.
    """
    root = root.resolve()
    refuse_release(root)
    record = read_run(root)
    state = record.state
    lost = "" if state.stage is Stage.FINISHED else experiments.describe_lost_secret(root, state.opened)
    try:
        check_agent(root, state.opened, trusted=trusted)
    except UsageError as error:
        raise (UsageError(f"{error}\n{lost}") if lost else error) from None
    if lost:
        raise UsageError(lost)
    check_state_dir_writable()
    if state.stage is Stage.FINISHED:
        with RunWriter(root, guard=create_guard(state.opened)) as writer:
            writer.write_document()  # it may be missing after the last event
        opened(RunPaths(root), state)
        return state
    experiment = experiments.of_run(root, state.opened)
    import_for_record(root, state.opened, trusted=trusted)
    with ExitStack() as stack:
        writer = stack.enter_context(RunWriter(root, guard=create_guard(state.opened)))
        agent = agent or make(state.opened.agent)  # only after the rollback check
        program = ""
        if state.stage is Stage.OPEN:
            if isinstance(agent, EnvironmentSpecificAgent):
                agent.refuse(state.opened.task.environment.name)
            program = check_program(root, state, agent, allowed=allow_changed_program)
        config = config_for_resume(state.opened, workers, executor_name, executor_address)
        paths, secret = writer.paths, experiment.key(state.opened.split)
        executor = stack.enter_context(open_executor(config, paths.workers, paths.simulator_log, secret))
        check_fingerprint(state.opened, _executor_info_for_resume(executor, root, state))
        job_builder(state, experiment)
        writer.record(RunResumed(now(), program))
        writer.listen(observer)
        opened(writer.paths, writer.state)
        return _play_to_end(writer, executor, experiment, agent, directory)


def _executor_info_for_resume(executor: Executor, root: Path, state: RunState) -> ExecutorInfo:
    """Return what the executor found; a sandbox's error says that the run keeps its isolation and how it goes on."""
    try:
        return executor.info
    except SandboxError as error:
        command = f"evopolicygym resume {shell_word(root)}"
        raise SandboxError(
            f"{error}\nThe run was opened with isolation {state.opened.isolation!r} and keeps it; nothing was changed. "
            f"Once this is fixed, or on a machine that can, continue with: {command}"
        ) from error


def job_builder(state: RunState, experiment: experiments.Experiment) -> EpisodeJobBuilder:
    """Return the builder of a run's jobs; raise ``RecordError`` if its cases violate the commitment."""
    opened = state.opened
    return EpisodeJobBuilder(experiments.committed_cases(opened, experiment), experiment.key(opened.split), opened.seed)


def _play_to_end(
    writer: RunWriter,
    executor: Executor,
    experiment: experiments.Experiment,
    agent: Agent,
    directory: Path | None = None,
) -> RunState:
    builder = job_builder(writer.state, experiment)
    try:
        with shortage_as_error():
            _play_stages(writer, executor, builder, agent, directory)
    except BaseException as error:
        _record_stop(writer, error)
        command = f"evopolicygym resume {shell_word(writer.paths.root)}"
        hint = f"Nothing is lost; once this is fixed, continue with: {command}"
        if isinstance(error, EnvironmentFault):
            hint = (
                f"Nothing is lost. If the machine caused it, continue with: {command}\n"
                f"If the simulator has to be changed, start a new run: a changed simulator is another environment."
            )
        if isinstance(error, AgentError | EnvironmentFault | SandboxError | StorageError):
            raise type(error)(f"{error}\n{hint}") from error
        if isinstance(error, OSError):
            problem = describe_storage(error, writer.paths.root) or f"An error of the system stopped the run: {error}"
            raise StorageError(f"{problem}.\n{hint}") from error
        raise
    return writer.state


def _play_stages(
    writer: RunWriter, executor: Executor, builder: EpisodeJobBuilder, agent: Agent, directory: Path | None
) -> None:
    if writer.state.stage is Stage.OPEN:
        _run_agent(Rollouts(writer, executor, builder, camera=_camera(writer.state.opened)), agent, directory)
    leave_neutral_place(writer.paths, writer.state.opened)
    _tell_closed(writer)
    finalize(Rollouts(writer, executor, builder))
    _tell_closed(writer)


def _tell_closed(writer: RunWriter) -> None:
    """Let an agent from outside, which outlives its turn, read that the run is closed and whether all of it is over."""
    state = writer.state
    if state.closed and state.opened.agent.name == OUTSIDE:
        workspace.write_closed(writer.paths, state.closed.reason.value, over=state.stage is Stage.FINISHED)


def _record_stop(writer: RunWriter, error: BaseException) -> None:
    """Record that the run is stopped, if it can still be written."""
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
    message = "" if reason is StopReason.INTERRUPTED else f"{type(error).__name__}: {error}"[:STOP_MESSAGE_LENGTH]
    with suppress(OSError, RecordError, StorageError):
        # Read again: an interruption can come after an event is written and before the state has it.
        if read_run(writer.paths.root).state.stage is not Stage.FINISHED:
            writer.record(RunStopped(now(), reason, message))
            writer.write_document()


def _run_agent(rollouts: Rollouts, agent: Agent, directory: Path | None) -> None:
    """Let the agent submit until the budget is spent or its turns are over; its processes have ended on return."""
    writer = rollouts.writer
    paths, limits = writer.paths, writer.state.opened.task.limits
    if isinstance(agent, InterfaceAgent):
        agent.know(writer.state.opened.task.environment.name, writer.state.opened.interface)
    latest = writer.state.submissions[-1].charged.checkpoint if writer.state.submissions else ""
    writer.write_document()
    with ExitStack() as stack:
        stack.enter_context(feedback_read_only(paths))
        agent_workspace: AgentWorkspace | SampleWorkspaces
        neutral = directory is None and _is_neutral(writer.state.opened, agent)
        if writer.state.opened.task.memory is Memory.NONE:
            agent_workspace = SampleWorkspaces(paths, neutral_place(writer.state.opened) if neutral else None)
        elif neutral:
            agent_workspace = stack.enter_context(open_neutral_workspace(paths, writer.state.opened, latest))
        else:
            agent_workspace = stack.enter_context(open_workspace(paths, directory, latest))
        capture = partial(agent_workspace.capture, limits)
        session = stack.enter_context(JudgeSession(rollouts, capture, agent_workspace.deliver, rules_of(agent)))
        server = stack.enter_context(JudgeServer(session))
        run_agent_loop(session, server, agent, agent_workspace.open)
        session.raise_fault()
        session.close()


def _is_neutral(opened: RunOpened, agent: Agent) -> bool:
    """Return whether an agent's program must work where no path says what it plays."""
    return (
        opened.task.interface is TaskInterface.ANONYMOUS
        and isinstance(agent, ProgramAgent)
        and agent.starts_program
        and Guarantee.PROGRAM_ENCLOSED in guarantees(opened.isolation)
    )


def _camera(opened: RunOpened) -> LocalCamera | None:
    if not opened.task.films:
        return None
    schemas = opened.observation_schema, opened.action_schema
    return LocalCamera(opened.task.environment, *schemas, pinned=is_pinned(opened), interface=opened.interface)


def _task_with_anchors(config: RunConfig, experiment: experiments.Experiment, executor: Executor) -> Task:
    """Return a run's task with anchors of its world, measured on its held-out cases without charge."""
    spec = config.task.environment
    builder = EpisodeJobBuilder(experiment.cases(spec.name, config.split), experiment.key(config.split), run_seed=0)
    return replace(config.task, environment=measure_world_anchors(executor, spec, builder, config.task.held_out_cases))


def _build_opened_event(
    config: RunConfig,
    agent: Agent,
    experiment: experiments.Experiment,
    run_id: str,
    info: ExecutorInfo,
    price: PriceSnapshot | None,
    probed: Probe | None,
) -> RunOpened:
    environment = config.task.environment
    case_set = experiment.cases(environment.name, config.split)
    return RunOpened(
        time=now(),
        run_id=run_id,
        protocol_version=PROTOCOL_VERSION,
        task=config.task,
        agent=config.agent,
        seed=config.seed,
        split=config.split,
        experiment=experiment.identity,
        commitment=cases.commitment(case_set, cases.salt(experiment.key(config.split), environment.name)),
        versions=info.versions,
        spec_sha256=spec_sha256(environment),
        isolation=info.isolation,
        findings={**info.findings, **machine_findings()},
        observation_schema=info.observation_schema,
        action_schema=info.action_schema,
        price=price,
        simulator_code=info.simulator_code,
        interface=info.interface,
        revealed=config.split is not SplitSource.PUBLIC and experiments.is_revealed(config.runs, config.experiment),
        evopolicygym_version=package_version(),
        agent_version=agent_version(agent, info.isolation),
        model_details=model_details(agent),
        nonce=config.nonce,
        readable=config.readable,
        hidden_pace=HIDDEN_PACE,
        hidden_grace_s=HIDDEN_GRACE_S,
        repeats=probed.repeats if probed else None,
        cases_differ=probed.cases_differ if probed else None,
    )


def _prepare_packages(paths: RunPaths, task: Task, executor: Executor) -> None:
    """Check that policies can import the further packages, and link them for the agent; raise ``UsageError``."""
    try_packages(task, executor)
    if Guarantee.PROGRAM_ENCLOSED not in guarantees(executor.info.isolation):
        workspace.link_packages(paths, task.policy_packages)


def _executor_info(executor: Executor, root: Path) -> ExecutorInfo:
    """Return the executor's info; if the simulator fails, keep its log beside the run directory."""
    try:
        return executor.info
    except EnvironmentFault as error:
        log, saved_log = RunPaths(root).simulator_log, root.with_name(f"{root.name}.log")
        if not log.is_file() or not log.stat().st_size:
            raise
        shutil.copyfile(log, saved_log)
        raise EnvironmentFault(f"{error}\nIts whole output is kept in {saved_log}.") from error


@contextmanager
def _opening(runs: Path) -> Iterator[None]:
    """Describe an error of storage that keeps a run from being opened, by the disk: its own directory is gone."""
    try:
        yield
    except OSError as error:
        if problem := describe_storage(error, runs):
            raise StorageError(f"No run was opened. {problem}, or use another disk: --runs DIR") from error
        raise


def _remove_unopened(root: Path) -> None:
    """Remove the directory of a run that could not be opened, for example without its simulator."""
    journal = RunPaths(root).journal
    if not journal.exists() or journal.stat().st_size == 0:
        shutil.rmtree(root, ignore_errors=True)


def check_fingerprint(opened: RunOpened, info: ExecutorInfo) -> None:
    """Raise ``RecordError`` if versions or the simulator's code differ from the run's."""
    check_protocol(opened)
    if dumps(opened.interface) != dumps(info.interface):
        raise RecordError("The spaces here are not those that the run's interface was drawn for.")
    if others := other_versions(opened, info.versions, info.simulator_code):
        raise RecordError(
            f"The run started with other versions: {', '.join(others)}. Its results would not be comparable; to "
            f"resume it, install those versions again and restore your own code."
        )


def check_protocol(opened: RunOpened) -> None:
    """Raise ``RecordError`` for a run of another protocol."""
    if opened.protocol_version != PROTOCOL_VERSION:
        raise RecordError(
            f"Invalid protocol_version: expected {PROTOCOL_VERSION}, got {opened.protocol_version}. Continue the run "
            f"with a version of evopolicygym that has its protocol."
        )


def other_versions(opened: RunOpened, here: Mapping[str, str], code: Mapping[str, str]) -> tuple[str, ...]:
    """Describe the packages and modules that differ from those at the start of the run."""
    names = sorted(opened.versions.keys() | here.keys())
    pairs = {name: (opened.versions.get(name, "absent"), here.get(name, "absent")) for name in names}
    others = [f"{name} {then} then, {now} here" for name, (then, now) in pairs.items() if then != now]
    changed = other_code(code, opened.simulator_code)
    return (*others, *(f"code of {item.module}: {item.there} then, {item.here} here" for item in changed))
