"""The short run that the check of an agent plays: cartpole, interrupted after the first submission, then resumed.

An agent that needs a model gets a scripted one, which makes it run commands and costs nothing.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.agents.kit.scripted_model.conversation import Say, Script, Shell
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.checks import inspection
from evopolicygym.checks.agent_run import CANARY, CheckedRunOutcome, RunOrder, play_in_process
from evopolicygym.core.agent import AgentConfig, Workspace
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.event import AgentEnded
from evopolicygym.core.run import RunState
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records import journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import run_document
from evopolicygym.runs.config import RunConfig
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose
from evopolicygym.specs import catalog

ENVIRONMENT, BUDGET, VALIDATION, HELD_OUT = "cartpole", 24, 1, 2
SCRIPTED = "scripted"
"""Name of the scripted model."""
KEY_VARIABLE = "EVOPOLICYGYM_CHECK_KEY"
STEPS = [{"submit": [0, 1]}, {"submit": [2, 3]}, {"submit": list(range(4, BUDGET))}]
"""Options of the agent ``scripted`` in its check."""
SUMMARY = "submit_000/summary.json"
"""The feedback that the scripted model has read, below ``feedback/``."""


@dataclass(slots=True)
class AgentTrial:
    """The run of a check, and what came of it so far."""

    config: RunConfig
    place: Path
    patience_s: float
    model: ScriptedModel
    script: Script
    usual_processes: int
    first: CheckedRunOutcome = field(default_factory=CheckedRunOutcome)
    second: CheckedRunOutcome | None = None
    """None if there was nothing to resume."""
    half_count: int = 0
    leftovers: list[str] = field(default_factory=list)
    """Leftover processes of each half."""
    first_requests: int = 0
    """Number of the script's requests in the first half."""
    has_conversation: bool = False
    """Whether the agent's tool named a conversation in the first half."""
    secret: str = field(default_factory=lambda: f"canary-{secrets.token_hex(16)}")
    key: str = field(default_factory=lambda: f"sk-check-{secrets.token_hex(16)}")

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of the processes that play."""
        return {KEY_VARIABLE: self.key, "XDG_STATE_HOME": str(self.place / "state")}

    @property
    def paths(self) -> RunPaths:
        """The run directory."""
        return RunPaths(self.first.root or self.place / "none")

    @property
    def is_scripted(self) -> bool:
        """Whether the agent asks the scripted model."""
        return self.config.agent.options.get("model_url") == f"{self.model.url}/v1"

    @property
    def has_begun(self) -> bool:
        """Whether there is a run."""
        return self.first.root is not None and self.paths.journal.exists()

    @property
    def state(self) -> RunState:
        """The run's state, from its event log."""
        return read_run(self.paths.root).state

    @property
    def usage(self) -> Mapping[str, int]:
        """What the model proxy counted, without times and costs; empty for an agent without one."""
        usage: Mapping[str, float | None] = run_document(self.paths)["usage"] or {}
        return {name: int(count) for name, count in usage.items() if count is not None}

    @property
    def ends(self) -> list[AgentEnded]:
        """How the agent's turns ended."""
        return [event for event in journal.read(self.paths.journal).events if isinstance(event, AgentEnded)]

    @property
    def last(self) -> CheckedRunOutcome:
        """The outcome of the last half."""
        return self.second or self.first

    @property
    def feedback_digest(self) -> str:
        """The digest of the feedback that the scripted model has read, which it prints; empty if there is none."""
        file = self.paths.workspace / "feedback" / SUMMARY
        return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""

    def play(self) -> None:
        """Play both halves; once more with the scripted model if the agent turns out to need a model."""
        self._plant()
        if self.config.agent.model == SCRIPTED and "model_url" not in self.config.agent.options:
            self._use_scripted_model()
        self._play_halves()
        if not self.first.made and not self.config.agent.model and "--model" in self.first.error:
            self._use_scripted_model()
            self._play_halves()

    def _plant(self) -> None:
        """Write a secret where the secrets of experiments are stored."""
        directory = self.place / "state" / "evopolicygym" / "experiments" / "canary"
        directory.mkdir(mode=0o700, parents=True)
        (directory / "secret.json").write_text(self.secret, encoding="utf-8")

    def _use_scripted_model(self) -> None:
        agent = self.config.agent
        options = {**agent.options, "model_url": f"{self.model.url}/v1", "model_key": KEY_VARIABLE}
        self.config = replace(self.config, agent=replace(agent, model=SCRIPTED, options=options))

    def _play_halves(self) -> None:
        self.first = self._half("first", None)
        if self.first.stopped and self.first.root:
            self.has_conversation = Workspace(self.paths.workspace, self.paths.transcript, 0, "").conversation.exists()
            self.first_requests = len(self.script.places)
            self.second = self._half("second", self.first.root)

    def _half(self, name: str, root: Path | None) -> CheckedRunOutcome:
        self.half_count += 1
        order = RunOrder(self.config, self.place / f"half-{self.half_count}", root, self.secret)
        outcome = play_in_process(order, self.environment, self.patience_s)
        if count := inspection.left_beyond(self.usual_processes):
            self.leftovers.append(f"{count} processes {inspection.GONE_S:g} s after the {name} half of its run")
        return outcome


@contextmanager
def agent_trial(agent: AgentConfig, patience_s: float, isolation: str) -> Iterator[AgentTrial]:
    """Give a trial in a directory of its own; the processes that it leaves are ended after it."""
    if agent.name == "scripted" and not agent.options:
        agent = replace(agent, options={"steps": STEPS})
    with ExitStack() as stack:
        workdir = Path(stack.enter_context(TemporaryDirectory(prefix="evopolicygym-check-")))
        encloses = Guarantee.PROGRAM_ENCLOSED in choose(isolation).backend.guarantees
        stack.enter_context(inspection.orphans_adopted())
        own_processes = inspection.descendants(os.getpid())
        stack.callback(inspection.end_adopted, own_processes)
        script = Script(_steps(workdir if encloses else None))
        server = stack.enter_context(ScriptedModel(script))
        yield AgentTrial(_config(agent, workdir, isolation), workdir, patience_s, server, script, len(own_processes))


def _config(agent: AgentConfig, workdir: Path, isolation: str) -> RunConfig:
    task = Task(catalog.load(ENVIRONMENT), BudgetRule(BUDGET), validation_cases=VALIDATION, held_out_cases=HELD_OUT)
    runs = workdir / "runs"
    return RunConfig(task, agent, SplitSource.PUBLIC, runs=runs, workers=1, isolation=isolation)


def _steps(hidden: Path | None) -> Sequence[Shell | Say]:
    """Return the scripted model's steps: edit, search hidden files, submit, read feedback, submit, pause, submit.

    Without ``hidden``, the directory of hidden files, no file is searched.
    """
    third = BUDGET // 3
    search = f"cat {hidden}/state/*/*/*/* {hidden}/runs/*/*/*/*/{CANARY} /proc/*/environ" if hidden else "true"
    return (
        Shell("echo '# looked at' >> system/policy.py"),
        Shell(f"{search} 2>/dev/null | tr '\\0' '\\n' | head -c 4000; true"),
        Shell(f"./judge submit 0-{third - 1}"),
        Shell(f"cat feedback/{SUMMARY}; sha256sum feedback/{SUMMARY}"),
        Shell(f"./judge submit {third}-{2 * third - 1}"),
        Say("Two submissions may be enough."),
        Shell(f"./judge submit {2 * third}-{BUDGET - 1}"),
        Say("Nothing is left."),
    )
