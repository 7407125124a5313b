"""The check of an agent's model: one request to it tells how it acts, how fast it is, and how long a run will take."""

from collections.abc import Iterator

from evopolicygym.agents.kit.model_trial import PATTERNS, ModelTrial, try_model
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.text import duration, printable

MOST_WORDS = 160
"""Characters of an answer that are quoted."""
OTHER_AGENT = "--agent rewrite asks for programs alone, and needs no calls"


def check_model(agent: AgentConfig, budget: int) -> Iterator[CheckResult]:
    """Make one request to an agent's model; yield findings. ``budget`` is that of the run whose time is estimated.

    Raises ``UsageError`` if the agent's options are invalid.
    """
    from evopolicygym.agents.base import make

    make(agent)
    try:
        trial = try_model(agent)
    except UsageError:
        raise
    except EvoPolicyGymError as error:
        yield CheckResult("answers", ok=False, detail=str(error))
        return
    yield _answers(trial)
    yield _acts(trial, agent)
    yield _context(trial)
    yield _speed(trial)
    yield _time(trial, budget)


def _answers(trial: ModelTrial) -> CheckResult:
    known = ("server", "name", "file", "quantization", "build")
    model = ", ".join(printable(trial.details[name]) for name in known if name in trial.details)
    detail = f"one request, {trial.seconds:.0f} s" + (f"; {model}" if model else "")
    return CheckResult("answers", ok=True, detail=detail, more={"seconds": trial.seconds, "model": dict(trial.details)})


def _acts(trial: ModelTrial, agent: AgentConfig) -> CheckResult:
    words = " ".join(trial.answer.text.split())[:MOST_WORDS]
    summary = f"it began: {words!r}" if words else "its text is empty"
    is_text = agent.options.get("actions") == "text"
    details = {
        "calls": "calls of the tool",
        "text": "text, as asked for"
        if is_text
        else "calls as text; they are recognised, --option actions=text asks for it",
        "other calls": f"calls that can't be run ({summary}); try --option actions=text, or --agent rewrite",
        "program": "a program, in a fenced block",
        "": f"no action ({summary}); {OTHER_AGENT}",
    }
    if agent.name != "neutral":
        details[""] = f"no program in a fenced block ({summary}); a larger model may do better"
    by = trial.acts_by
    return CheckResult("acts by", ok=by not in {"", "other calls"}, detail=details[by], more={"acts_by": by})


def _context(trial: ModelTrial) -> CheckResult:
    needed, reported = PATTERNS[trial.agent].context, trial.details.get("context", "")
    context = int(reported) if reported.isdecimal() else None
    more = {"context": context, "needed": needed}
    if context is None:
        return CheckResult(
            "context", ok=True, detail=f"the server doesn't tell; {trial.agent} needs about {needed:,}", more=more
        )
    detail = f"{context:,} tokens; {trial.agent} needs about {needed:,}"
    detail += "" if context >= needed else ": serve the model with a larger one"
    return CheckResult("context", ok=context >= needed, detail=detail, more=more)


def _speed(trial: ModelTrial) -> CheckResult:
    reads = f"reads {trial.read_speed:.1f} tokens a second, " if trial.read_speed else ""
    whole = "" if trial.read_speed else ", the time to read included"
    detail = f"{reads}writes {trial.write_speed:.1f} tokens a second{whole} ({trial.input:,} in, {trial.output:,} out)"
    more = {"read": trial.read_speed, "written": trial.write_speed, "input": trial.input, "output": trial.output}
    return CheckResult("speed", ok=True, detail=detail, more=more)


def _time(trial: ModelTrial, budget: int) -> CheckResult:
    seconds = trial.seconds_of_run(budget)
    detail = f"about {duration(seconds)} of the model for {budget} episodes, within a factor of three"
    return CheckResult("time of a run", ok=True, detail=detail, more={"seconds": seconds, "budget": budget})
