"""The check of an agent: it plays a short run step by step, and what worked is told before money is spent."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evopolicygym.agents.base import agent_listings
from evopolicygym.agents.kit.model_trial import PATTERNS
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT
from evopolicygym.checks.agent_trial import BUDGET, ENVIRONMENT, KEY_VARIABLE, AgentTrial, agent_trial
from evopolicygym.checks.inspection import files_containing
from evopolicygym.checks.model import check_model
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Isolation
from evopolicygym.core.task import BudgetRule
from evopolicygym.core.text import counted, number
from evopolicygym.records.checkpoints import starter_checkpoint
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import guarantees

REPORTED = (INPUT, OUTPUT)
"""Tokens that each answer of the scripted model reports."""
PATIENCE_S = 300.0
"""Limit of each half of the run, in seconds."""
DEFAULT_BUDGET = BudgetRule().episodes
KEY_SUFFIXES, MIN_KEY_LENGTH = ("_KEY", "_TOKEN", "_SECRET"), 16
"""Which environment variables are keys."""
MAX_FILES = 3
"""Most files in a finding."""


def check(
    name: str,
    model: str = "",
    options: Mapping[str, Any] | None = None,
    command: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
    isolation: str = AUTO,
    budget: int = DEFAULT_BUDGET,
) -> Iterator[CheckResult]:
    """Check the agent with a name; yield its findings. It ends early if the agent can't be created or started.

    The model ``scripted`` is the scripted one, unless the options name a server. ``command`` is the program of the
    agent ``command``. A harness of ours whose options name a server plays no run: its model gets one request, which
    tells how long a run of ``budget`` episodes will take.
    """
    agent = AgentConfig(name, model, options or {}, tuple(command))
    if agent.name in PATTERNS and "model_url" in agent.options:
        yield from check_model(agent, budget)
        return
    with agent_trial(agent, patience_s, isolation) as trial:
        trial.play()
        yield from _findings(trial)


def _findings(trial: AgentTrial) -> Iterator[CheckResult]:
    if not trial.first.made:
        yield CheckResult("made", ok=False, detail=trial.first.error)
        return
    yield _made(trial)
    if not trial.has_begun:
        yield CheckResult("starts", ok=False, detail=trial.first.error)
        return
    yield _starts(trial)
    if usage := trial.usage:
        yield _asks(trial, usage)
        yield _counts(trial, usage)
    yield _edits(trial)
    yield _submits(trial)
    if trial.is_scripted:
        yield _reads(trial)
    yield _resumes(trial)
    yield _scored(trial)
    yield CheckResult("leaves no process", ok=not trial.leftovers, detail="; ".join(trial.leftovers) or "none is left")
    yield _hidden(trial)
    yield _keys(trial)


def _made(trial: AgentTrial) -> CheckResult:
    agent = trial.config.agent
    known = next((listing.about.program for listing in agent_listings() if listing.name == agent.name), "")
    program = str(agent.options.get("program") or known)
    path = (shutil.which(program) or program) if program else ""
    version = trial.state.opened.agent_version if trial.has_begun else ""
    tool = ", ".join(filter(None, (version or "version unknown", path))) if path else version
    parts = (agent.name, f"({tool})" if tool else "", f"with the model {agent.model}" if agent.model else "")
    more = {"version": version, "program": path, "model": agent.model}
    return CheckResult("made", ok=True, detail=" ".join(filter(None, parts)), more=more)


def _starts(trial: AgentTrial) -> CheckResult:
    state = trial.state
    if not state.submissions and trial.first.error:
        return CheckResult("starts", ok=False, detail=trial.first.error)
    detail = f"{ENVIRONMENT}, {BUDGET} episodes, at level {state.opened.isolation}"
    return CheckResult("starts", ok=True, detail=detail, more={"isolation": state.opened.isolation})


def _asks(trial: AgentTrial, usage: Mapping[str, int]) -> CheckResult:
    asked, failed, refused = usage["generations"], usage["failed"], usage["refused"]
    more = {"requests": usage["requests"], "generations": asked, "failed": failed, "refused": refused}
    if not asked:
        return CheckResult("asks its model", ok=False, detail=f"no request for an answer; {_ending(trial)}", more=more)
    paths = sorted({request.target.partition("?")[0] for request in trial.model.generations})
    where = f" at {', '.join(paths)}" if paths else ""
    troubles = "".join(f", {count} {what}" for count, what in ((failed, "failed"), (refused, "refused")) if count)
    detail = f"{counted(asked, 'request')} for an answer through the model proxy{where}{troubles}"
    return CheckResult("asks its model", ok=True, detail=detail, more=more)


def _counts(trial: AgentTrial, usage: Mapping[str, int]) -> CheckResult:
    """Compare the counted tokens with what the scripted model reported; of a real one, there must be some."""
    unknown, counts = usage["unknown"], (usage["input"], usage["output"])
    detail = f"{counts[0]:,} tokens in, {counts[1]:,} out"
    detail += f"; {unknown} answers were cut short, with unknown usage" if unknown else ""
    ok = all(counts) or unknown > 0
    if trial.is_scripted:
        answers = len(trial.model.generations)
        ok = answers > 0 and all(
            (answers - unknown) * each <= count <= answers * each for count, each in zip(counts, REPORTED, strict=True)
        )
        detail += "" if ok else f"; {answers} answers reported {answers * INPUT:,} in, {answers * OUTPUT:,} out"
    return CheckResult("tokens are counted", ok=ok, detail=detail, more={"input": counts[0], "output": counts[1]})


def _edits(trial: AgentTrial) -> CheckResult:
    checkpoints = {submission.charged.checkpoint for submission in trial.state.submissions}
    if changed := checkpoints - {starter_checkpoint()}:
        return CheckResult("edits the policy", ok=True, detail=f"{len(changed)} that differ from the starter")
    return CheckResult(
        "edits the policy", ok=not trial.is_scripted, detail="it submitted nothing but the starter policy"
    )


def _submits(trial: AgentTrial) -> CheckResult:
    state, ends = trial.state, trial.ends
    count = counted(len(state.submissions), "submission")
    more = {"submissions": len(state.submissions), "episodes": state.spent}
    if trial.last.error:
        return CheckResult("submits", ok=False, detail=f"{count}; {trial.last.error}", more=more)
    if not state.submissions:
        return CheckResult("submits", ok=False, detail=f"it submitted nothing ({_ending(trial)})", more=more)
    if state.remaining and ends and ends[-1].end in {AgentEnd.CRASHED, AgentEnd.HUNG}:
        detail = f"{state.remaining} episodes were left when it ended ({_ending(trial)})"
        return CheckResult("submits", ok=False, detail=detail, more=more)
    budget = f"{state.remaining} episodes left ({_ending(trial)})" if state.remaining else "its budget is spent"
    return CheckResult("submits", ok=True, detail=f"{count}, {budget}", more=more)


def _reads(trial: AgentTrial) -> CheckResult:
    """Tell whether what the agent read in ``feedback/`` reached the scripted model."""
    digest = trial.feedback_digest
    if digest and any(digest in json.dumps(request.body) for request in trial.model.asked):
        return CheckResult("reads feedback", ok=True, detail="the summary of its first submission reached its model")
    why = "its model was not sent it" if digest else "there was none"
    return CheckResult("reads feedback", ok=False, detail=f"no summary of its first submission: {why}")


def _resumes(trial: AgentTrial) -> CheckResult:
    if trial.second is None:
        spent = trial.first.finished and trial.state.submissions and not trial.state.remaining
        detail = "it spent its budget in one submission" if spent else "there was nothing to resume"
        return CheckResult("resumes", ok=bool(spent), detail=detail)
    if not trial.second.finished:
        return CheckResult("resumes", ok=False, detail=trial.second.error or "it was not finished")
    new = trial.script.places[trial.first_requests :]
    if not trial.has_conversation:
        return CheckResult("resumes", ok=True, detail="stopped after a submission, and resumed from there")
    if new and not new[0]:
        return CheckResult("resumes", ok=False, detail="it named a conversation, and began another when it was resumed")
    how = "in the same conversation" if new else "with the name of its conversation; no request to its model was seen"
    return CheckResult("resumes", ok=True, detail=f"stopped after a submission, and resumed {how}")


def _scored(trial: AgentTrial) -> CheckResult:
    held_out = trial.state.held_out()
    if held_out is None:
        return CheckResult("run is scored", ok=False, detail=trial.last.error or "nothing playable was submitted")
    detail = f"held-out score {number(held_out.mean)} over {counted(held_out.count, 'case')}"
    return CheckResult("run is scored", ok=True, detail=detail, more={"score": held_out.mean})


def _hidden(trial: AgentTrial) -> CheckResult:
    words = {"secret": trial.secret}
    directories = (trial.paths.workspace, trial.paths.logs, trial.paths.root / "home")
    leaks = [path for directory in directories for path, _ in files_containing(directory, words)]
    if leaks:
        return CheckResult("hidden files", ok=False, detail=f"it read a hidden file: {_list_files(leaks, trial)}")
    if any(trial.secret in json.dumps(request.body) for request in trial.model.asked):
        return CheckResult("hidden files", ok=False, detail="it sent its model the content of a hidden file")
    findings = {name: text for end in trial.ends for name, text in end.findings.items()}
    isolation = trial.state.opened.isolation
    encloses = Guarantee.PROGRAM_ENCLOSED in guarantees(isolation)
    if not findings and encloses:
        return CheckResult(
            "hidden files", ok=True, detail="nothing of them in its files; it has no sandbox: it runs in our process"
        )
    if not encloses:
        level = Isolation.parse(isolation).backend
        return CheckResult("hidden files", ok=True, detail=f"nothing of them in its files; level {level} hides none")
    searched = "; shown where to look, it found nothing" if trial.script.places else ""
    message = findings.get("hidden", "nothing of them in its files")
    return CheckResult("hidden files", ok=True, detail=f"{message}{searched}")


def _keys(trial: AgentTrial) -> CheckResult:
    variables = os.environ.items()
    keys = {name: value for name, value in variables if name.endswith(KEY_SUFFIXES) and len(value) >= MIN_KEY_LENGTH}
    keys |= {str(trial.config.agent.options.get("model_key") or KEY_VARIABLE): trial.key}
    keys = {name: os.environ.get(name, value) for name, value in keys.items()}
    leaks = [path for path, _ in files_containing(trial.paths.root, keys)]
    if any(key in json.dumps(request.body) for request in trial.model.asked for key in keys.values()):
        return CheckResult("no key", ok=False, detail="it sent its model a key")
    names = ", ".join(sorted(keys))
    detail = f"in the record: {_list_files(leaks, trial)}" if leaks else f"none of {names} in the record"
    return CheckResult("no key", ok=not leaks, detail=detail)


def _list_files(paths: list[Path], trial: AgentTrial) -> str:
    names = list(dict.fromkeys(str(path.relative_to(trial.paths.root)) for path in paths))
    return ", ".join(names[:MAX_FILES]) + (f" and {len(names) - MAX_FILES} more" if len(names) > MAX_FILES else "")


def _ending(trial: AgentTrial) -> str:
    """Return how the agent's last turn ended, in its words."""
    ends = trial.ends
    return ": ".join(filter(None, (ends[-1].end, ends[-1].message))) if ends else "no turn of it ended"
