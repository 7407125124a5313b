"""The check of an agent, for its author.

It plays a short run on cartpole in a temporary directory: started, interrupted after the first submission, resumed
(``agent_run.py``). An agent that needs a model gets a scripted one, which makes it run commands and costs nothing.
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evopolicygym.agents.kit.scripted_model.conversation import Say, Script, Shell
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.checks import inspection
from evopolicygym.checks.agent_run import CANARY, CheckedRunOutcome, RunOrder, play_in_process
from evopolicygym.checks.inspection import files_containing
from evopolicygym.core.agent import AgentConfig, AgentEnd, Workspace
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.event import AgentEnded, Event
from evopolicygym.core.finding import Finding
from evopolicygym.core.isolation import Isolation
from evopolicygym.core.options import AUTO
from evopolicygym.core.run import RunState
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records import journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs.config import RunConfig
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose, guarantees
from evopolicygym.specs import catalog

ENVIRONMENT, BUDGET, VALIDATION, HELD_OUT = "cartpole", 24, 1, 2
PATIENCE_S = 300.0
"""Seconds that an agent has for each of the two halves of its run."""
SCRIPTED = "scripted"
"""The model's name that stands for the scripted one."""
KEY_VARIABLE = "EVOPOLICYGYM_CHECK_KEY"
KEY_NAMES, LEAST_KEY = ("_KEY", "_TOKEN", "_SECRET"), 16
"""Suffixes of variables that hold keys, and the shortest length of a key."""
STEPS = [{"submit": [0, 1]}, {"submit": [2, 3]}, {"submit": list(range(4, BUDGET))}]
"""Options of the agent ``scripted`` in its check."""
SHOWN = 3
"""Most files in one line."""


@dataclass(slots=True)
class _AgentCheck:
    """One check under way, and what it has seen so far."""

    config: RunConfig
    place: Path
    patience_s: float
    model: ScriptedModel
    script: Script
    usual_processes: int
    first: CheckedRunOutcome = field(default_factory=CheckedRunOutcome)
    second: CheckedRunOutcome | None = None
    """None where there was nothing to resume."""
    halves: int = 0
    left: list[str] = field(default_factory=list)
    """Leftovers by half of the run."""
    begun_from: int = 0
    """Number of the script's requests in the first half."""
    named: bool = False
    """Whether the agent's tool had named its conversation in the first half."""
    secret: str = field(default_factory=lambda: f"canary-{secrets.token_hex(16)}")
    key: str = field(default_factory=lambda: f"sk-check-{secrets.token_hex(16)}")

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the processes that play."""
        return {KEY_VARIABLE: self.key, "XDG_STATE_HOME": str(self.place / "state")}

    def plant(self) -> None:
        """Lay what no agent may see where secrets are kept."""
        kept = self.place / "state" / "evopolicygym" / "experiments" / "canary"
        kept.mkdir(mode=0o700, parents=True)
        (kept / "secret.json").write_text(self.secret, encoding="utf-8")

    def play(self) -> None:
        """Play both halves."""
        self.first = self._half("first", None)
        if self.first.stopped and self.first.root:
            self.named = Workspace(self.paths.workspace, self.paths.transcript, 0, "").conversation.exists()
            self.begun_from = len(self.script.places)
            self.second = self._half("second", self.first.root)

    def _half(self, name: str, root: Path | None) -> CheckedRunOutcome:
        self.halves += 1
        order = RunOrder(self.config, self.place / f"half-{self.halves}", root, self.secret)
        outcome = play_in_process(order, self.environment, self.patience_s)
        if count := inspection.left_beyond(self.usual_processes):
            self.left.append(f"{count} processes {inspection.GONE_S:g} s after the {name} half of its run")
        return outcome

    @property
    def paths(self) -> RunPaths:
        """The run directory."""
        return RunPaths(self.first.root or self.place / "none")

    @property
    def state(self) -> RunState:
        """The run's state, as its record has it."""
        return read_run(self.paths.root).state

    @property
    def events(self) -> tuple[Event, ...]:
        """The run's events."""
        return journal.read(self.paths.journal).events

    @property
    def last(self) -> CheckedRunOutcome:
        """The outcome of the last half."""
        return self.second or self.first


def check(
    name: str,
    model: str = "",
    options: Mapping[str, Any] | None = None,
    command: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
    isolation: str = AUTO,
) -> Iterator[Finding]:
    """Check the agent of a name; yield one finding after another. It ends early where nothing further can be looked at.

    The model ``scripted`` is the scripted one, unless the options name a server; ``command`` is the program of the
    agent ``command``.
    """
    agent = AgentConfig(name, model, options or {}, tuple(command))
    if agent.name == "scripted" and not agent.options:
        agent = replace(agent, options={"steps": STEPS})
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="evopolicygym-check-")))
        encloses = Guarantee.PROGRAM_ENCLOSED in choose(isolation).backend.guarantees
        stack.enter_context(inspection.orphans_adopted())
        ours = inspection.descendants(os.getpid())
        stack.callback(inspection.end_adopted, ours)
        script = Script(_steps(place if encloses else None))
        server = stack.enter_context(ScriptedModel(script))
        look = _AgentCheck(_config(agent, place, isolation), place, patience_s, server, script, len(ours))
        if agent.model == SCRIPTED and "model_url" not in agent.options:
            look.config = _with_model(look.config, server)
        look.plant()
        look.play()
        if not look.first.made and not agent.model and "--model" in look.first.error:
            look.config = _with_model(look.config, server)
            look.play()
        yield from _findings(look)


def _findings(look: _AgentCheck) -> Iterator[Finding]:
    asked, first = look.config.agent, look.first
    if not first.made:
        yield Finding("made", ok=False, detail=first.error)
        return
    model = f" with the model {asked.model}" if asked.model else ""
    yield Finding("made", ok=True, detail=f"{asked.name}{model}")
    if first.root is None or not look.paths.journal.exists():
        yield Finding("starts", ok=False, detail=first.error)
        return
    yield _starts(look)
    yield _answers(look)
    yield _resumes(look)
    yield Finding("leaves no process", ok=not look.left, detail="; ".join(look.left) or "nothing of it is there")
    yield _hidden(look)
    yield _keys(look)


def _starts(look: _AgentCheck) -> Finding:
    state = look.state
    if not state.submissions and look.first.error:
        return Finding("starts", ok=False, detail=look.first.error)
    return Finding("starts", ok=True, detail=f"{ENVIRONMENT}, {BUDGET} episodes, at level {state.opened.isolation}")


def _answers(look: _AgentCheck) -> Finding:
    state, ends = look.state, _ends(look)
    count = len(state.submissions)
    said = ": ".join(filter(None, (ends[-1].end, ends[-1].message))) if ends else "no turn of it ended"
    if look.last.error:
        return Finding("answers", ok=False, detail=f"{count} submissions; {look.last.error}")
    if not count:
        return Finding("answers", ok=False, detail=f"it submitted nothing ({said})")
    if state.remaining and ends and ends[-1].end in {AgentEnd.CRASHED, AgentEnd.HUNG}:
        return Finding("answers", ok=False, detail=f"{state.remaining} episodes were left when it ended ({said})")
    left = f"{state.remaining} episodes left ({said})" if state.remaining else "its budget is spent"
    return Finding("answers", ok=True, detail=f"{count} submissions, {left}")


def _resumes(look: _AgentCheck) -> Finding:
    if look.second is None:
        spent = look.first.finished and look.state.submissions and not look.state.remaining
        detail = "it spent its budget at once: there was no middle" if spent else "there was nothing to resume"
        return Finding("resumes", ok=bool(spent), detail=detail)
    if not look.second.finished:
        return Finding("resumes", ok=False, detail=look.second.error or "it was not finished")
    new = look.script.places[look.begun_from :]
    if not look.named:
        return Finding("resumes", ok=True, detail="stopped after a submission, and resumed from there")
    if new and not new[0]:
        return Finding("resumes", ok=False, detail="it named its conversation, and began another when it was resumed")
    how = "in the same conversation" if new else "with its conversation named to it, which was not looked into"
    return Finding("resumes", ok=True, detail=f"stopped after a submission, and resumed {how}")


def _hidden(look: _AgentCheck) -> Finding:
    words = {"what is hidden": look.secret}
    places = (look.paths.workspace, look.paths.logs, look.paths.root / "home")
    found = [path for place in places for path, _ in files_containing(place, words)]
    if found:
        return Finding("hidden files", ok=False, detail=f"it had what is hidden: {_shown(found, look)}")
    if any(look.secret in json.dumps(asked.body) for asked in look.model.asked):
        return Finding("hidden files", ok=False, detail="it sent its model what is hidden")
    findings = {name: text for end in _ends(look) for name, text in end.findings.items()}
    isolation = look.state.opened.isolation
    encloses = Guarantee.PROGRAM_ENCLOSED in guarantees(isolation)
    if not findings and encloses:
        return Finding(
            "hidden files", ok=True, detail="nothing of them in its files; it plays unconfined, as a part of us"
        )
    if not encloses:
        level = Isolation.parse(isolation).backend
        return Finding("hidden files", ok=True, detail=f"nothing of them in its files; level {level} hides none")
    looked = "; shown where to look, it found nothing" if look.script.places else ""
    return Finding("hidden files", ok=True, detail=f"{findings.get('hidden', 'nothing of them in its files')}{looked}")


def _keys(look: _AgentCheck) -> Finding:
    keys = {name: value for name, value in os.environ.items() if name.endswith(KEY_NAMES) and len(value) >= LEAST_KEY}
    keys |= {str(look.config.agent.options.get("model_key") or KEY_VARIABLE): look.key}
    keys = {name: os.environ.get(name, value) for name, value in keys.items()}
    found = [path for path, _ in files_containing(look.paths.root, keys)]
    if any(key in json.dumps(asked.body) for asked in look.model.asked for key in keys.values()):
        return Finding("no key", ok=False, detail="it sent its model a key")
    detail = f"in the record: {_shown(found, look)}" if found else f"none of {', '.join(sorted(keys))} in the record"
    return Finding("no key", ok=not found, detail=detail)


def _ends(look: _AgentCheck) -> list[AgentEnded]:
    return [event for event in look.events if isinstance(event, AgentEnded)]


def _shown(found: list[Path], look: _AgentCheck) -> str:
    names = list(dict.fromkeys(str(path.relative_to(look.paths.root)) for path in found))
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _config(agent: AgentConfig, place: Path, isolation: str) -> RunConfig:
    task = Task(catalog.load(ENVIRONMENT), BudgetRule(BUDGET), validation_cases=VALIDATION, held_out_cases=HELD_OUT)
    runs = place / "runs"
    return RunConfig(task, agent, SplitSource.PUBLIC, runs=runs, workers=1, isolation=isolation)


def _with_model(config: RunConfig, model: ScriptedModel) -> RunConfig:
    model_options = {"model_url": f"{model.url}/v1", "model_key": KEY_VARIABLE}
    agent = replace(config.agent, model=SCRIPTED, options={**config.agent.options, **model_options})
    return replace(config, agent=agent)


def _steps(hidden: Path | None) -> list[Shell | Say]:
    """Return what the scripted model has an agent do: edit, look where it may not, submit, rest, submit the rest.

    Where nothing would hide it, it doesn't look.
    """
    third = BUDGET // 3
    look = f"cat {hidden}/state/*/*/*/* {hidden}/runs/*/*/*/*/{CANARY} /proc/*/environ" if hidden else "true"
    return [
        Shell("echo '# looked at' >> system/policy.py"),
        Shell(f"{look} 2>/dev/null | tr '\\0' '\\n' | head -c 4000; true"),
        Shell(f"./judge submit 0-{third - 1}"),
        Shell(f"./judge submit {third}-{2 * third - 1}"),
        Say("Two submissions may be enough."),
        Shell(f"./judge submit {2 * third}-{BUDGET - 1}"),
        Say("Nothing is left."),
    ]
