"""The agent ``rewrite``, the smallest harness: one request to a model, one program.

Each request shows the task, the best program so far or the form of one, how it fared, and the last tries. The answer is
a whole file, or blocks that search and replace. A program is constructed in the sandbox, free of charge, before it is
played. It needs no tools, no shell and no library, so it plays with every model, and other harnesses must beat it. The
prompt is a file: one of ``kit/rewrite_prompts/``, or one's own with the same placeholders; its digest is recorded.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from threading import Event

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.evaluator import Evaluation
from evopolicygym.agents.kit.model_options import CACHE, SAMPLING, caches_of, choose_model, sampling_of
from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.model_search import ModelSearchAgent, SearchContext
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS
from evopolicygym.agents.kit.neutral_harness.text_actions import blocks_of
from evopolicygym.agents.kit.policy_form import IDEA, essentials, policy_form, rule_of
from evopolicygym.core.agent import ANSWERS, AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError

ABOUT = About("the smallest harness: one request, one program", Model.NEEDED, extra="agents", imports=("httpx2",))
EPISODES = 4
"""Episodes for each candidate."""
LAST_TRIES = 8
"""Tries that a request lists."""
MOST_PROGRAM, MOST_ERROR, MOST_IDEA = 20_000, 1500, 200
"""Characters of a program, an error and an idea that a request shows."""
SHOWN_STEPS, MOST_STEP = 3, 300
"""Steps of an episode that are shown, its last ones, and characters of each."""
PROMPTS = ("improve", "search")
FIRST = "search"
"""The prompt that is sent until there is a program to improve."""
SEARCH, DIVIDER, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
OPTIONS = ("prompt", "episodes", CACHE, *SAMPLING)


class AnswerKind(StrEnum):
    """The result of an answer."""

    PLAYED = "played"
    NO_FILE = "without a file"
    KNOWN = "with a file that was known"
    BROKEN = "with a file that could not be constructed"


@dataclass(slots=True)
class Try:
    """A program that a model proposed."""

    idea: str
    outcome: str
    """What came of it, in one line."""
    mean: float = float("-inf")

    @property
    def line(self) -> str:
        """The try as requests list it."""
        return f"- {self.idea or 'no idea was given'}: {self.outcome}"


@dataclass(slots=True)
class RewriteAgent(ModelSearchAgent):
    """Asks for one program a request."""

    prompt: str = ""
    """The template."""
    prompt_name: str = ""
    answers: Counter["AnswerKind"] = field(default_factory=Counter)
    """The results of the model's answers."""

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until the budget is spent or ``stop`` is set; findings have the prompt's digest and the answers."""
        turn = ModelSearchAgent.play(self, workspace, endpoint, stop)
        digest = sha256(self.prompt.encode()).hexdigest()
        counts = ", ".join(f"{self.answers[kind]} {kind}" for kind in AnswerKind if self.answers[kind])
        prompt = f"{self.prompt_name} {digest}"
        return replace(turn, findings={**turn.findings, "prompt": prompt, ANSWERS: counts or "none"})


def make(config: AgentConfig) -> RewriteAgent:
    """Return the agent; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = choose_model(config, CONVERSATIONS, OPTIONS)
    episodes = config.options.get("episodes", EPISODES)
    if type(episodes) is not int or episodes < 1:
        raise UsageError(f"Invalid option episodes of the agent 'rewrite': expected an integer >= 1, got {episodes!r}.")
    name = str(config.options.get("prompt", PROMPTS[0]))
    prompt = _read_prompt(name)

    answers = Counter[AnswerKind]()

    def library(context: SearchContext) -> None:
        search(context, prompt, answers)

    title = name if name in PROMPTS else Path(name).name
    return RewriteAgent(
        upstream,
        ModelRequests(model, upstream.wire, sampling_of(config, upstream.wire), {}, caches=caches_of(config, "off")),
        config.effort,
        episodes,
        library,
        "evopolicygym",
        prompt=prompt,
        prompt_name=title,
        answers=answers,
    )


def _read_prompt(name: str) -> str:
    if name in PROMPTS:
        return (files("evopolicygym.agents.kit") / "rewrite_prompts" / f"{name}.md").read_text(encoding="utf-8")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"Invalid option prompt of the agent 'rewrite': expected {' or '.join(PROMPTS)}, or a file, got {name!r} "
            f"({error})."
        ) from error
    if "<task>" not in text:
        raise UsageError(f"Invalid prompt {name}: expected the placeholder <task> in it.")
    return text


def search(context: SearchContext, prompt: str, answers: Counter[AnswerKind]) -> None:
    """Ask for one program after another until the context ends the search; count the results of its answers."""
    starter = context.evaluator.starter
    form, task = policy_form(context.evaluator.info.env_meta), essentials(context.evaluator.task)
    packages = (entry.partition("==")[0] for entry in context.evaluator.info.allowed_imports)
    imports = " and ".join(["the standard library", *packages])
    best, best_mean, result, tries = "", float("-inf"), "", list[Try]()
    known = {starter.strip(), form.strip()}
    first = prompt
    if "<program>" in prompt:  # there is none yet
        first, evaluation = _read_prompt(FIRST), context.evaluate(starter)
        tries.append(Try("play at random", f"mean return {evaluation.mean:g}", evaluation.mean))
    while True:
        values = {"<form>": form, "<program>": best[:MOST_PROGRAM], "<result>": result, "<tries>": _list(tries)}
        answer = context.ask(_fill(prompt if best else first, {"<task>": task, "<imports>": imports, **values}))
        program = program_in(answer, best)
        idea = _idea(answer) or rule_of(program or "")[:MOST_IDEA]
        if program is None:
            answers[AnswerKind.NO_FILE] += 1
            tries.append(Try(idea, "the answer had no ```python block with the complete file"))
            continue
        if program.strip() in known:
            answers[AnswerKind.KNOWN] += 1
            tries.append(Try(idea, "the same program as one before; it was not played again"))
            continue
        known.add(program.strip())
        if error := context.evaluator.check(program):
            answers[AnswerKind.BROKEN] += 1
            tries.append(Try(idea, f"it could not be constructed, and was not played: {_last_line(error)}"))
            continue
        answers[AnswerKind.PLAYED] += 1
        evaluation = context.evaluate(program)
        outcome = f"mean return {evaluation.mean:g}" if evaluation.returns else "it could not be played"
        if evaluation.errors:
            first = next(iter(evaluation.errors.values()))
            outcome += f", {len(evaluation.errors)} of {len(evaluation.cases)} episodes failed: {_last_line(first)}"
        tries.append(Try(idea, outcome, evaluation.mean))
        if evaluation.mean > best_mean:
            best, best_mean, result = program, evaluation.mean, _describe(evaluation)


def _list(tries: list[Try]) -> str:
    """Return the last tries, and before them the best of the others."""
    if not tries:
        return "Nothing was tried yet."
    earlier, shown = tries[:-LAST_TRIES], tries[-LAST_TRIES:]
    if earlier:
        shown = [max(earlier, key=lambda one: one.mean), *shown]
    return "Tried so far:\n" + "\n".join(dict.fromkeys(one.line for one in shown))  # what is repeated is copied


def _fill(prompt: str, values: Mapping[str, str]) -> str:
    """Return a prompt with its placeholders filled, none of them within what fills another."""
    placeholders = re.compile("|".join(map(re.escape, values)))
    return placeholders.sub(lambda match: values[match[0]].strip(), prompt)


def program_in(answer: str, best: str) -> str | None:
    """Return the program that an answer holds, whole or as changes to the best one; None if it has none."""
    if SEARCH in answer:
        return _changed(answer, best)
    blocks = [content for info, content in blocks_of(answer) if info.partition(" ")[0].lower() in {"python", "py", ""}]
    programs = [content for content in blocks if "def " in content or "class " in content]
    return max(programs, key=len) if programs else None


def _changed(answer: str, best: str) -> str | None:
    """Return the best program with an answer's changes; None if one doesn't fit."""
    program = best
    for part in answer.split(SEARCH)[1:]:
        old, divider, rest = part.partition(f"\n{DIVIDER}\n")
        new, end, _ = rest.partition(f"\n{REPLACE}")
        old = old.removeprefix("\n")
        if not (divider and end and old.strip()) or program.count(old) != 1:
            return None
        program = program.replace(old, new)
    return program if program != best else None


def _idea(answer: str) -> str:
    lines = (line.strip("*# ") for line in answer.splitlines())
    ideas = (line.partition(":")[2].strip(" *.") for line in lines if line.lower().startswith("idea"))
    return next((idea for idea in ideas if idea and idea != IDEA), "")[:MOST_IDEA]


def _describe(evaluation: Evaluation) -> str:
    """Return how a program fared: its returns, how its worst episode ended, and errors."""
    if not evaluation.returns:
        return f"It could not be played: {evaluation.load_error[-MOST_ERROR:]}"
    returns = ", ".join(f"{value:g}" for value in evaluation.returns)
    lines = [f"mean return {evaluation.mean:g} over {len(evaluation.returns)} initial states ({returns})."]
    worst = min(range(len(evaluation.returns)), key=lambda index: evaluation.returns[index])
    lines += _steps(evaluation, worst)
    if evaluation.errors:
        index, error = next(iter(evaluation.errors.items()))
        lines.append(f"{len(evaluation.errors)} episodes failed, episode {index} with:\n{error[-MOST_ERROR:]}")
    return "\n".join(lines)


def _steps(evaluation: Evaluation, index: int) -> list[str]:
    """Return how an episode ended, with its last steps, as far as the feedback tells."""
    if evaluation.feedback is None:
        return []
    episodes = sorted((evaluation.feedback / "episodes").glob("ep_*"))
    try:
        with (episodes[index] / "trajectory.jsonl").open(encoding="utf-8") as file:
            steps = file.readlines()
        last = json.loads(steps[-1])
    except (OSError, IndexError, ValueError):
        return []
    end = "terminated" if last.get("terminated") else "reached the limit of steps"
    shown = [
        f"  {json.dumps({name: step.get(name) for name in ('t', 'obs', 'action', 'reward')})[:MOST_STEP]}"
        for step in map(json.loads, steps[-SHOWN_STEPS:])
    ]
    return [f"The worst episode {end} after {len(steps)} steps; its last steps:", *shown]


def _last_line(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[-1][:MOST_STEP] if lines else "no reason is known"
