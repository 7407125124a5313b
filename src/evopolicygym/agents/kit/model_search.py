"""Program search by a library that uses a model: the agent, and the context that the library searches in.

A library handles text only: questions to the model, and candidates to evaluate.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, Any

from evopolicygym.agents.kit.answer_replay import compare_answers
from evopolicygym.agents.kit.evaluator import BudgetSpent, Evaluation, Evaluator, spend
from evopolicygym.agents.kit.judge_client import JudgeClient, Remarks, StopRequested, turn
from evopolicygym.agents.kit.model_options import choose_model, describe_model
from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS
from evopolicygym.core.agent import AgentConfig, AgentEnd, ComparedAnswer, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, MissingExtra, SandboxError
from evopolicygym.model_proxy.upstream import ModelUpstream

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient, Transcript

LOG = logging.getLogger(__name__)
LEAST_CANDIDATES = 8
"""The fewest candidates that a small budget is split into."""
MOST_IDLE = 8
"""Consecutive answers without a new candidate after which a search ends."""
MOST_ERROR = 1500
"""Characters of an error that a question repeats; its end is kept."""
WORST = -1e9
"""The value of a candidate that can't be played: below every return, and finite, since libraries compute with it."""


class SearchKilled(EvoPolicyGymError):
    """The library's process was killed from outside."""


class SearchCrashed(EvoPolicyGymError):
    """The library failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a candidate on one case."""

    case: int
    value: float
    """The return, or ``WORST``."""
    error: str
    """Why it failed or could not be loaded; empty if it did not."""

    @property
    def text(self) -> str:
        """The description for the model."""
        outcome = "it could not be played" if self.value == WORST else f"return {self.value:g}"
        return f"train case {self.case}: {outcome}" + (f"; the policy failed:\n{self.error}" if self.error else "")


@dataclass(slots=True)
class SearchContext:
    """Gives a library access to the model, and to the judge, which plays candidates on a few fixed cases."""

    workspace: Workspace
    evaluator: Evaluator
    cases: list[int]
    stop: Event
    transcript: "Transcript"
    _answer: Callable[[str, Callable[[float], None]], tuple[str, Mapping[str, object]]]
    """Returns the answer to a question, and what the transcript keeps of the request."""
    ended: Exception | None = None
    """The first error that ended the search; the library may have caught it."""
    _known: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    _submitted: dict[str, int] = field(default_factory=dict)
    """The last submission of each candidate."""
    _parent: int | None = None
    """The submission of the candidate in the model's last question."""
    _idle: int = 0
    _failure: str = ""
    """The error of the candidate that was played last; empty if it had none."""

    @property
    def brief(self) -> str:
        """The beginning of every question to the model."""
        return (
            "Improve the Python policy of an environment. Answer with the complete file policy.py. Its score is its "
            f"mean return over unseen initial states of the environment.\n\n{self.evaluator.task}"
        )

    def ask(self, question: str) -> str:
        """Return the model's answer; raise an error that ends the search."""
        self._check_running()
        self._idle += 1
        if self._idle > MOST_IDLE:
            self._end(BudgetSpent(f"The model proposed nothing new {MOST_IDLE} times in a row."))
        self._parent = self._find_parent(question)
        if self._failure and self._failure not in question:  # libraries show those of the parent only
            question += f"\n\nThe last program that you proposed failed. Don't repeat its error:\n{self._failure}"
        self.transcript.write("user", text=question, begins=True)
        try:
            answer, asked = self._answer(question, self.pause)
        except EvoPolicyGymError as error:
            self._end(error)
        self.transcript.write("assistant", text=answer, **asked)
        return answer

    def play(self, program: str, cases: Sequence[int]) -> list[Outcome]:
        """Play a candidate on those cases on which it was not played yet; raise an error that ends the search."""
        self._check_running()
        known = self._known.setdefault(program, {})
        if missing := [case for case in cases if case not in known]:
            short = max(0, self.evaluator.info.min_episodes - len(missing))
            # Sorted, so that the same set of cases is the same submission.
            filled = sorted(missing + [case for case in self.cases if case not in missing][:short])
            evaluation = self._evaluate(program, filled, self._submitted.get(program, self._parent))
            self._failure = _first_error(evaluation)[-MOST_ERROR:]
            known.update({outcome.case: outcome for outcome in _outcomes(evaluation)})
        return [known[case] for case in cases]

    def evaluate(self, program: str) -> Evaluation:
        """Play a candidate on all of the search's cases, and return its evaluation; raise an error that ends it."""
        self._check_running()
        return self._evaluate(program, self.cases, self._parent)

    def _evaluate(self, program: str, cases: Sequence[int], parent: int | None) -> Evaluation:
        """Play a candidate, and write what the judge said to the transcript."""
        is_new, before = program not in self._submitted, self.evaluator.remaining
        try:
            evaluation = self.evaluator.evaluate(program, cases, remarks=Remarks(parent=parent))
        except EvoPolicyGymError as error:
            self._end(error)
        if is_new or self.evaluator.remaining < before:  # after an interruption it was played, and is new here
            self._idle = 0
        if evaluation.submit_index is not None:
            self._submitted[program] = evaluation.submit_index
        played = {"cases": evaluation.cases, "returns": evaluation.returns, "status": evaluation.status}
        self.transcript.write("judge", **played, remaining=self.evaluator.remaining)
        return evaluation

    def pause(self, seconds: float) -> None:
        """Wait; raise ``StopRequested`` if the agent should stop."""
        if self.stop.wait(seconds):
            raise StopRequested("The agent was asked to stop.")

    def _find_parent(self, question: str) -> int | None:
        """Return the submission of the candidate that occurs last in a question; None if there is none.

        Both libraries show several candidates, and the one to change after the others.
        """
        positions = {program: question.rfind(program.strip()) for program in self._submitted if program.strip()}
        program = max(positions, key=lambda item: (positions[item] + len(item.strip()), len(item)), default=None)
        return self._submitted[program] if program is not None and positions[program] >= 0 else None

    def _check_running(self) -> None:
        if self.ended:
            raise self.ended
        if self.stop.is_set():
            self._end(StopRequested("The agent was asked to stop."))

    def _end(self, error: EvoPolicyGymError) -> None:
        self.ended = self.ended or error
        raise error


Library = Callable[[SearchContext], None]
"""Searches in a context until the search ends."""


@dataclass(slots=True)
class ModelSearchAgent:
    """Searches by a library with one model."""

    upstream: ModelUpstream
    requests: ModelRequests
    effort: str
    episodes: int
    """Most episodes for each candidate."""
    library: Library
    distribution: str
    """The distribution that the library is of."""
    max_turns: int = field(default=1, kw_only=True)

    @property
    def model_url(self) -> str:
        """The address of its model; tells a run that limits on tokens and cost apply."""
        return self.upstream.base_url

    def tool_version(self, isolation: str) -> str:  # noqa: ARG002 - of the installed library, in any sandbox
        """Return the library's version."""
        return f"{self.distribution} {version(self.distribution)}"

    def model_details(self) -> Mapping[str, str]:
        """Return what the server tells of the model, the sampling, and whether it answers again in the same way."""
        server = describe_model(self.upstream)
        return {**server, **replace(self.requests, server=server).details}

    def compare_answers(
        self, lines: Iterable[Mapping[str, Any]], details: Mapping[str, str]
    ) -> Iterator[ComparedAnswer]:
        """Send the requests of a transcript again, and yield each answer beside the recorded one."""
        conversation = partial(CONVERSATIONS[self.upstream.wire], self.effort, bash=False)
        return compare_answers(self.upstream, replace(self.requests, server=details), conversation, lines)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until the budget is spent or ``stop`` is set; raise ``AgentError`` if the model never answers."""
        from evopolicygym.agents.kit.neutral_harness.model_client import (
            AllowanceSpent,
            ConversationTooLong,
            ModelClient,
            ModelFailed,
        )

        requests = replace(self.requests, server=workspace.model_details)
        with ModelClient(self.upstream, requests, workspace) as model:
            try:
                end = turn(lambda judge: self._search(workspace, judge, model, stop), endpoint, stop)
            except AllowanceSpent as error:
                end = Turn(AgentEnd.ALLOWANCE_SPENT, str(error))
            except ConversationTooLong as error:  # the first one: a larger context can play the run
                end = Turn(AgentEnd.UNAVAILABLE, str(error))
            except ModelFailed as error:
                if not (model.has_answered or error.end.pauses):
                    raise AgentError(f"The agent can't work: {error}") from error
                end = Turn(error.end, str(error))
            except (AgentError, SandboxError):
                raise
            except SearchKilled as error:
                end = Turn(AgentEnd.KILLED, str(error))
            except Exception as error:  # noqa: BLE001 - any failure of the library is recorded with its usage
                end = Turn(AgentEnd.CRASHED, f"{type(error).__name__}: {error}"[:500])
        return replace(end, usage=model.usage().figures())

    def _search(self, workspace: Workspace, judge: JudgeClient, model: "ModelClient", stop: Event) -> str:
        from evopolicygym.agents.kit.neutral_harness.model_client import ConversationTooLong, Transcript

        evaluator = Evaluator(workspace, judge)

        def answer(question: str, pause: Callable[[float], None]) -> tuple[str, Mapping[str, object]]:
            conversation = model.conversation(self.effort, bash=False)
            conversation.say(question)
            return model.ask(conversation, pause).text, model.asked

        def search(evaluator: Evaluator, _seed: int) -> None:
            info = evaluator.info
            wanted = max(1, min(self.episodes, info.episode_budget // LEAST_CANDIDATES))
            cases = info.cases(0, min(info.portion(wanted, info.episode_budget), info.n_cases))
            context = SearchContext(workspace, evaluator, cases, stop, Transcript(workspace.transcript), answer)
            try:
                self.library(context)
            except Exception as error:  # noqa: BLE001 - raised again below, or its cause
                context.ended = context.ended or error
            if isinstance(context.ended, ConversationTooLong) and model.has_answered:
                LOG.warning("%s What is left of the budget goes to the best program.", context.ended)
                raise BudgetSpent(str(context.ended)) from context.ended
            if context.ended:
                raise context.ended

        return spend(evaluator, search, workspace.seed)


def make_model_search(config: AgentConfig, library: Library, episodes: int) -> ModelSearchAgent:
    """Return the agent for a library with the same name as the agent; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = choose_model(config, CONVERSATIONS)
    if find_spec(config.name) is None:
        raise MissingExtra(f"The agent {config.name!r}", config.name, config.name)
    requests = ModelRequests(model, upstream.wire, {}, {}, caches=True)
    return ModelSearchAgent(upstream, requests, config.effort, episodes, library, config.name)


def _first_error(evaluation: Evaluation) -> str:
    return next(iter(evaluation.errors.values()), evaluation.load_error)


def mean(outcomes: Sequence[Outcome]) -> float:
    """Return the mean value; ``WORST`` if any value is."""
    values = [outcome.value for outcome in outcomes]
    return WORST if WORST in values else sum(values) / len(values)


def _outcomes(evaluation: Evaluation) -> list[Outcome]:
    errors: Mapping[int, str] = evaluation.errors
    if not evaluation.returns:
        return [Outcome(case, WORST, evaluation.load_error) for case in evaluation.cases]
    # Returns may be NaN or huge, and libraries add them up.
    values = [min(max(value, WORST / 2), -WORST) if value == value else WORST / 2 for value in evaluation.returns]  # noqa: PLR0124 - NaN
    pairs = enumerate(zip(evaluation.cases, values, strict=True))
    return [Outcome(case, value, errors.get(index, "")) for index, (case, value) in pairs]
