"""The sandbox ``evopolicygym`` of Inspect AI: the workplace of a sample's run, without Docker.

A sample starts its run when its sandbox is created.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from posixpath import join
from typing import Any, Literal, TypeVar, overload

import anyio
from anyio import CancelScope, CapacityLimiter
from inspect_ai._control.eval_state import stable_task_id_for_eval
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log._samples import sample_active
from inspect_ai.model import ModelUsage
from inspect_ai.model._model import sample_model_usage
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError

from evopolicygym.agents.kit.outside_agent import TurnOver
from evopolicygym.api.read.run import Run
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.inspect_tasks.sample_run import SPEC, RunSettings, SampleIdentity, SampleRun, sample_run
from evopolicygym.sandbox.program.standing import Execution, StandingWorkplace, WorkplaceLost

NAME = "evopolicygym"
USERS = (None, "agent", "1000")
"""Accepted users of commands; the sandbox has one user."""
SOLVER = "solver"
"""Name of a solver that is not a named agent."""
NOT_FOUND, CANNOT_START, KILLED = 127, 126, 137
FAILED = 3
"""Exit code of the scripts below if a file can't be read or written; stderr has the error as JSON."""
LOST = (
    "the command's sandbox ended during the command, and was restarted: its processes, /tmp and the home are lost, "
    "/workspace is unchanged"
)
ERRORS = f"""
except OSError as error:
    print(json.dumps([error.errno, error.strerror]), file=sys.stderr)
    sys.exit({FAILED})
"""
WRITE = f"""
import json, os, shutil, sys
try:
    os.makedirs(os.path.dirname(sys.argv[1]) or ".", exist_ok=True)
    with open(sys.argv[1], "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
{ERRORS}"""
READ = f"""
import json, shutil, sys
try:
    with open(sys.argv[1], "rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
{ERRORS}"""
Result = TypeVar("Result")


@sandboxenv(name=NAME)
class RunSandbox(SandboxEnvironment):
    """The workplace of one run."""

    def __init__(self, run: SampleRun, directory: str = "") -> None:
        """Execute commands in a run's workplace, in ``/workspace`` or another directory there."""
        super().__init__()
        self.run = run
        self._directory = directory
        self._threads = CapacityLimiter(1000)

    @classmethod
    def default_concurrency(cls) -> int:
        """Return the number of concurrent runs: as many as have a core for each worker."""
        from os import sched_getaffinity

        return max(1, len(sched_getaffinity(0)) // RunSettings().workers)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> RunSettings:
        """Return the configuration in a log."""
        return RunSettings(**config)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, Any]
    ) -> dict[str, SandboxEnvironment]:
        """Start a sample's run, or resume that of an earlier try."""
        if not isinstance(config, RunSettings) or SPEC not in metadata:
            raise PrerequisiteError(
                f"The sandbox {NAME!r} is for tasks of EvoPolicyGym, and {task_name!r} is not one of them. Use inspect "
                f"eval evopolicygym/core16, or evopolicygym/acrobot."
            )
        used = partial(usage_of, sample_model_usage())
        identity = current_sample(str(metadata["__sample_id__"]))
        try:
            run = await anyio.to_thread.run_sync(sample_run, config, str(metadata[SPEC]), identity, used)
        except EvoPolicyGymError as error:
            raise PrerequisiteError(str(error)) from error
        return {"default": cls(run)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,  # noqa: ARG003 - the contract's
        config: SandboxEnvironmentConfigType | None,  # noqa: ARG003 - as above
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,  # noqa: ARG003, FBT001 - as above
    ) -> None:
        """Stop a run that isn't scored; another try of the sample resumes it."""
        for environment in environments.values():
            with CancelScope(shield=True):
                await anyio.to_thread.run_sync(environment.as_type(cls).run.leave)

    async def finish(self) -> Run:
        """Close the run and return it with its score."""
        return await anyio.to_thread.run_sync(self.run.finish)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - as above
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,  # noqa: ASYNC109 - as above
        timeout_retry: bool = True,  # noqa: ARG002, FBT001, FBT002 - as above
        concurrency: bool = True,  # noqa: ARG002, FBT001, FBT002 - as above
    ) -> ExecResult[str]:
        """Execute a command in the workplace."""
        if user not in USERS:
            raise SandboxUserUnsupportedError(f"Invalid user {user!r}: commands run as the user 'agent'.")
        try:
            done = await self._execute(cmd, _bytes(input or b""), cwd or "", env or {}, timeout)
        except PermissionError:
            raise
        except FileNotFoundError as error:
            return ExecResult[str](
                success=False, returncode=NOT_FOUND, stdout="", stderr=f"{error.filename}: {error.strerror}"
            )
        except WorkplaceLost:
            return ExecResult[str](success=False, returncode=KILLED, stdout="", stderr=LOST)
        except TimeoutError:
            raise
        except OSError as error:
            return ExecResult[str](success=False, returncode=CANNOT_START, stdout="", stderr=str(error))
        stdout, stderr = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        if done.cut:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout + stderr)
        return ExecResult(done.code == 0, done.code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, and create the directories above it."""
        _check_script(await self._execute(self._script(WRITE, file), _bytes(contents)), file)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...  # noqa: FBT002 - the contract's

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:  # noqa: FBT001, FBT002 - the contract's
        """Read a file."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        done = await self._execute(self._script(READ, file), most_bytes=limit)
        if done.cut:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        content = _check_script(done, file)
        return content.decode("utf-8") if text else content

    def default_polling_interval(self) -> float:
        """Return the seconds between polls for answers of Inspect's tools."""
        return 0.2

    def _workplace(self) -> StandingWorkplace:
        if self.run.hosted is None:
            raise SandboxUnavailableError("The run is over: it was scored in an earlier try of the sample.")
        try:
            return self.run.hosted.workplace
        except TurnOver as over:
            raise SandboxUnavailableError(f"The run is over: {over}.") from over

    def _script(self, script: str, file: str) -> Callable[[StandingWorkplace], list[str]]:
        return lambda workplace: [workplace.python, "-I", "-c", script, file]

    async def _execute(
        self,
        command: list[str] | Callable[[StandingWorkplace], list[str]],
        data: bytes = b"",
        directory: str = "",
        environment: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        most_bytes: int | None = None,
    ) -> Execution:
        """Execute a command in threads; it is killed if the caller is cancelled."""
        limit = most_bytes or SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        workplace = await self._threaded(self._workplace)
        line = command(workplace) if callable(command) else command
        path = join(self._directory, directory)
        begin = partial(workplace.begin, line, data, directory=path, environment=environment, most_bytes=limit)
        running, printed = await self._threaded(begin)
        try:
            code = await anyio.to_thread.run_sync(running.wait, limit_s, limiter=self._threads, abandon_on_cancel=True)
        except WorkplaceLost:
            raise
        except BaseException:
            with CancelScope(shield=True):
                await self._threaded(running.kill)
            raise
        return printed.execution(code)

    async def _threaded(self, call: Callable[[], Result]) -> Result:
        return await anyio.to_thread.run_sync(call, limiter=self._threads)


def current_sample(sample: str) -> SampleIdentity:
    """Return the identity of the sample that Inspect runs in this context."""
    active = sample_active()
    if active is None:
        raise PrerequisiteError("No Inspect sample is active.")
    return SampleIdentity(
        stable_task_id_for_eval(active.eval_id),
        sample,
        active.epoch,
        active.agent_name or SOLVER,
        active.model,
        version("inspect_ai"),
    )


def usage_of(models: Mapping[str, ModelUsage]) -> dict[str, float]:
    """Return a sample's usage of all its models, by the names in a run's record; cost if it is known."""
    used: dict[str, float] = {}
    for model in models.values():
        cached, cache_write = model.input_tokens_cache_read or 0, model.input_tokens_cache_write or 0
        amounts = {
            "input": model.input_tokens + cached + cache_write,
            "cached_input": cached,
            "output": model.output_tokens,
            "reasoning": model.reasoning_tokens or 0,
            **({"cost": model.total_cost} if model.total_cost is not None else {}),
        }
        used = {name: used.get(name, 0) + amounts.get(name, 0) for name in {**used, **amounts}}
    return used


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8") if isinstance(text, str) else text


def _check_script(done: Execution, file: str) -> bytes:
    """Return a script's output; raise ``OSError`` for its failure."""
    if done.code == FAILED:
        number, reason = json.loads(done.stderr)
        raise OSError(number, reason, file)
    if done.code:
        raise SandboxUnavailableError(f"{file} can't be reached: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return done.stdout
