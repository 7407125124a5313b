"""A policy process, as its worker sees it: starts it, exchanges frames with it and ends it.

Its output is untrusted. Actions are used only after ``core.spaces.action_reader`` has validated them. Every failure
raises ``PolicyFailed``.
"""

import fcntl
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evopolicygym.core import causes, strict_json
from evopolicygym.core.causes import Cause, Part, cause_of
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.shortage import describe_shortage, shortage_of
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import Limits, PolicyContext
from evopolicygym.core.text import well_formed
from evopolicygym.rollout.guest import layout
from evopolicygym.rollout.policy_monitor import PolicyMonitor, ProcessorTime, Watchdog, process_number
from evopolicygym.rollout.zygote import Child, Zygote

END_GRACE_S = 0.5
"""Seconds that a policy process has to flush its output once its pipe is closed."""
EXIT_S = 1.0
"""Seconds in which a process that has closed the channel must end, or else it is killed for having closed it."""
PIPE_BYTES = 65_536
F_SETPIPE_SZ = 1031
LOAD_STATUSES = {status.value for status in SubmissionStatus} - {"ok", "interrupted"}


class PolicyFailed(Exception):
    """The policy failed; the failure is data."""

    def __init__(self, failure: Failure, status: SubmissionStatus | None = None, *, from_start: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.from_start = from_start
        """Whether the anchor plays the episode from its start, so that it doesn't depend on the moment of failure."""
        self.status = status
        """The submission's status if the policy could not be loaded."""


@dataclass(frozen=True, slots=True)
class PolicyOutput:
    """The output of a policy process."""

    stdout: bytes
    stderr: bytes


class PolicyProcess:
    """One policy process, from the fork to the end of its episode."""

    def __init__(
        self,
        zygote: Zygote,
        context: PolicyContext,
        limits: Limits,
        watchdog: Watchdog,
        position: int = 0,
        policy_seed: int = 0,
        most_s: float = 0.0,
    ) -> None:
        """Fork the process, which loads the policy in the background; ``most_s`` is that of its job."""
        self._zygote = zygote
        self._limits = limits
        self.beat, self.patience_s = 1, limits.load_s
        schema_in, schema_out = context.obs_space, context.action_space
        self.question = bytearray(layout.HEADER.size + layout.size(schema_in, wide=False))
        """The frame for the policy; the recorder reads observations from it, too."""
        self._answer = bytearray(layout.HEADER.size + layout.size(schema_out, wide=True))
        self.write_observation = layout.bind(schema_in, self.question, layout.HEADER.size, wide=False).write
        self._read_action = layout.bind(schema_out, self._answer, layout.HEADER.size, wide=True).read
        self._views = [self._answer]
        self._step = 0
        self._has_started = False
        """Whether the policy's first line was reached."""
        self._time: ProcessorTime | None = None
        self._code: int | None = None
        self._before_acts_s = 0.0
        """Processor time used before the first act, in seconds."""
        setup = {
            "obs_space": schema_in,
            "action_space": schema_out,
            "env_meta": context.env_meta(),
            "episode_index": context.episode_index(position),
            "policy_seed": policy_seed,
        }
        self._child = self._fork(setup)
        channel, outputs = (self._questions, self._answers), (self._out, self._err)
        self._monitor = PolicyMonitor(
            self, self._child.handle, channel, outputs, limits, watchdog, last_resort=zygote.kill, most_s=most_s
        )

    def _fork(self, setup: dict[str, Any]) -> Child:
        pipes = [os.pipe() for _ in range(4)]
        (questions, self._questions), (self._answers, answers), (self._out, out), (self._err, err) = pipes
        if len(self.question) > PIPE_BYTES:
            with suppress(OSError):  # the kernel may refuse a larger pipe: then writing waits for the policy to read
                fcntl.fcntl(self._questions, F_SETPIPE_SZ, len(self.question))
        theirs = (questions, answers, out, err)
        try:
            return self._zygote.fork(setup, theirs)
        except SandboxError:
            for descriptor in (self._questions, self._answers, self._out, self._err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    @property
    def steps_answered(self) -> int:
        """Number of steps before the current one."""
        return max(0, self._step - 1)

    @property
    def mean_act_s(self) -> float | None:
        """Processor time of one act, in seconds, on average; None if the process has ended or never acted."""
        if self._time is None or not self._step:
            return None
        try:
            return (self._time.used_s() - self._before_acts_s) / self._step
        except OSError:
            return None

    def wait_until_loaded(self) -> None:
        """Wait until the policy is constructed; raise ``PolicyFailed`` with the submission's status if it can't be.

        Raises ``SandboxError`` if its process fails before the policy's first line.
        """
        self._receive(layout.STARTED)
        self._has_started = True
        self._receive(layout.LOADED)
        self.beat += 1

    def reset(self) -> None:
        """Have the policy reset for its episode."""
        self._ask(layout.RESET, self._limits.reset_s)
        self._receive(layout.READY)
        self.beat += 1
        self.patience_s = self._limits.act_s
        with suppress(OSError, ValueError):  # it has ended, which its next answer shows
            self._time = ProcessorTime(process_number(self._child.handle))
            self._before_acts_s = self._time.used_s()

    def act(self) -> Any:  # noqa: ANN401 - a raw value of the action space
        """Send the observation in ``question``; return the policy's action, not validated."""
        step = self._step = self._step + 1
        question, answer = self.question, self._answer
        layout.HEADER.pack_into(question, 0, layout.ACT, step)
        self.beat += 1
        try:
            sent = os.write(self._questions, question)
            received = os.readv(self._answers, self._views)
        except OSError:
            raise self._failure() from None
        if sent != len(question) or received != len(answer):
            self._receive_rest(sent, received)
        if layout.HEADER.unpack_from(answer) != (layout.ACTION, step):
            raise self._failure()
        self.beat += 1
        return self._read_action()

    def end(self) -> PolicyOutput:
        """End the process and return its output."""
        os.close(self._questions)
        out, err = self._monitor.finish(END_GRACE_S)
        self._reap()
        for descriptor in (self._answers, self._out, self._err, self._child.handle):
            os.close(descriptor)
        return PolicyOutput(out, err)

    def _reap(self) -> int:
        """Return the exit code of the process, which is dead or dying, negative for a signal."""
        if self._code is None:
            code = self._zygote.reap(self._child)
            self._code = -signal.SIGKILL if code is None else code  # a zygote that is killed takes it along
        return self._code

    def _ask(self, kind: int, patience_s: float) -> None:
        layout.HEADER.pack_into(self.question, 0, kind, 0)
        self.patience_s = patience_s
        self.beat += 1
        try:
            layout.write_whole(self._questions, self.question)
        except OSError:
            raise self._failure() from None

    def _receive(self, kind: int) -> None:
        try:
            layout.read_whole(self._answers, self._answer)
        except (OSError, EOFError):
            raise self._failure() from None
        if layout.HEADER.unpack_from(self._answer) != (kind, 0):
            raise self._failure()

    def _receive_rest(self, sent: int, received: int) -> None:
        """Finish an exchange whose frames were split."""
        if received == 0:
            raise self._failure()
        try:
            layout.write_whole(self._questions, memoryview(self.question)[sent:])
            layout.read_whole(self._answers, memoryview(self._answer)[received:])
        except (OSError, EOFError):
            raise self._failure() from None

    def _failure(self) -> PolicyFailed:
        """Return the failure, from the process's report or else from how it ended.

        Raises ``SandboxError`` if the machine gave the process no processor time or killed it: the episode is then
        retried.
        """
        report = self._read_report()
        by_itself = not report and self._monitor.wait_for_end(EXIT_S)
        self._monitor.kill()
        if self._monitor.starved:
            raise SandboxError(
                f"This machine is too busy to play on: {self._stage()}the policy got {self._monitor.starved}. "
                f"Resume when other programs have ended, or with fewer workers."
            )
        started = self._has_started
        code = self._reap()
        ended = causes.Failure.of_code(Part.POLICY, code, sent_here=not by_itself)
        if cause_of(ended) is Cause.MACHINE:
            raise SandboxError(f"{self._stage()}the policy's process was {ended.killed}.")
        if cause_of(causes.Failure(Part.POLICY, before_first_line=not started)) is Cause.MACHINE:
            raise SandboxError(self._not_started(report))
        loading, step = self.beat == 1, self.steps_answered
        if self._monitor.over_most:
            message = f"{self._monitor.timed_out}; the anchor played the episode from its start"
            return PolicyFailed(Failure(FailureReason.TIMEOUT, message), from_start=True)
        if self._monitor.timed_out:
            failure = Failure(FailureReason.TIMEOUT, self._stage() + self._monitor.timed_out, step)
            return PolicyFailed(failure, SubmissionStatus.INIT_TIMEOUT if loading else None)
        if not report:
            how = self._monitor.crowded or "its process ended or broke the channel"
            failure = Failure(FailureReason.DIED, self._stage() + how, step)
            return PolicyFailed(failure, SubmissionStatus.INIT_ERROR if loading else None)
        reason_text = str(report.get("reason"))
        reason = (
            FailureReason(reason_text) if reason_text in {"error", "invalid_action", "memory"} else FailureReason.ERROR
        )
        message, trace = (well_formed(str(report.get(name))) for name in ("message", "traceback"))
        failure = Failure(reason, " ".join(message.splitlines())[:500], step, trace[:12_000])
        status = SubmissionStatus(reason_text) if reason_text in LOAD_STATUSES else SubmissionStatus.INIT_ERROR
        return PolicyFailed(failure, status if loading else None)

    def _not_started(self, report: Mapping[str, Any]) -> str:
        """Return why the process failed before the policy's first line, given its report."""
        how = str(report.get("message") or self._monitor.timed_out or "it ended or broke the channel")
        number = report.get("errno")
        shortage = shortage_of(OSError(number, how)) if isinstance(number, int) else None
        hint = f" {describe_shortage(shortage)}" if shortage else ""
        return f"A policy's process failed before the policy's first line: {well_formed(how).strip()}.{hint}"

    def _read_report(self) -> dict[str, Any]:
        """Return the process's report of its failure; empty if there is none or it can't be read."""
        kind, length = layout.HEADER.unpack_from(self._answer)
        if kind != layout.FAILED or not 0 < length <= layout.REPORT_LIMIT:
            return {}
        body = bytearray(length)
        try:
            layout.read_whole(self._answers, body)
            report = strict_json.decode(bytes(body))
        except (OSError, EOFError, strict_json.NotStrict):
            return {}
        return report if isinstance(report, dict) else {}

    def _stage(self) -> str:
        if self.beat == 1:
            return "while loading: "
        return f"in act at step {self.steps_answered}: " if self._step else "in reset: "


def load_error(failed: PolicyFailed) -> LoadError:
    """Return the load error of a submission for a policy's failure."""
    status = failed.status or SubmissionStatus.INIT_ERROR
    return LoadError(status, failed.failure.message, failed.failure.traceback)


def ignore_broken_pipes() -> None:
    """Make writes to a dead policy raise ``BrokenPipeError`` instead of killing the worker."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
