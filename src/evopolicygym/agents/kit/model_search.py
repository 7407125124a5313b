"""What the agents that search programs with a model share: the context of a search, and how its turn ends.

Libraries see texts only: a question to the model, a candidate to evaluate.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING

from evopolicygym.agents.kit.evaluator import BudgetSpent, Evaluation, Evaluator, spend
from evopolicygym.agents.kit.judge_client import JudgeClient, Remarks, StopRequested, turn
from evopolicygym.agents.kit.model_options import chosen_model
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS
from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, MissingExtra, SandboxError
from evopolicygym.model_proxy.upstream import ModelUpstream

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient, Transcript

LEAST_CANDIDATES = 8
"""A budget that is small is cut into so many candidates at least: a search of fewer is none."""
MOST_IDLE = 8
"""Answers in a row that cost no episode, after which a search is stuck: the same candidates come again and again."""
WORST = -1e9
"""The value of what can't be played: a number, as libraries reckon with it, and below every return."""


class SearchCrashed(EvoPolicyGymError):
    """The library broke."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a candidate on one case."""

    case: int
    value: float
    """The return, or ``WORST``."""
    error: str
    """Why it failed or could not be loaded; empty where it did not."""

    @property
    def text(self) -> str:
        """What a model is shown of it."""
        outcome = "it could not be played" if self.value == WORST else f"return {self.value:g}"
        return f"train case {self.case}: {outcome}" + (f"; the policy failed:\n{self.error}" if self.error else "")


@dataclass(slots=True)
class SearchContext:
    """What a library searches with: the model, and the judge, which plays candidates on the same few cases."""

    workspace: Workspace
    evaluator: Evaluator
    cases: list[int]
    stop: Event
    transcript: "Transcript"
    _answer: Callable[[str, Callable[[float], None]], str]
    ended: Exception | None = None
    """What ended the search, first; a library may have swallowed it."""
    _known: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    _submitted: dict[str, int] = field(default_factory=dict)
    """The last submission of each candidate that was played."""
    _parent: int | None = None
    """The submission of the candidate that the model was asked about last."""
    _idle: int = 0

    @property
    def brief(self) -> str:
        """What a model is shown before anything else."""
        return (
            "You improve the Python policy of an environment. Write the whole of the file policy.py; its mean return "
            f"over unseen starts of the environment is what counts.\n\n{self.evaluator.task}"
        )

    def ask(self, question: str) -> str:
        """Return the model's answer; raise what ends the search."""
        self._go_on()
        self._idle += 1
        if self._idle > MOST_IDLE:
            self._end(BudgetSpent(f"The model gave nothing new {MOST_IDLE} times in a row."))
        self._parent = self._asked_about(question)
        self.transcript.write("user", text=question)
        try:
            answer = self._answer(question, self.pause)
        except EvoPolicyGymError as error:
            self._end(error)
        self.transcript.write("assistant", text=answer)
        return answer

    def play(self, program: str, cases: Sequence[int]) -> list[Outcome]:
        """Have a candidate played on cases, those on which it was not played yet; raise what ends the search."""
        self._go_on()
        known = self._known.setdefault(program, {})
        if missing := [case for case in cases if case not in known]:
            short = max(0, self.evaluator.info.min_episodes - len(missing))
            # In order, so that the same cases are the same submission however a library draws them.
            filled = sorted(missing + [case for case in self.cases if case not in missing][:short])
            before = self.evaluator.remaining
            try:
                parent = self._submitted.get(program, self._parent)
                evaluation = self.evaluator.evaluate(program, filled, said=Remarks(parent=parent))
            except EvoPolicyGymError as error:
                self._end(error)
            if self.evaluator.remaining < before:
                self._idle = 0
            if evaluation.submit_index is not None:
                self._submitted[program] = evaluation.submit_index
            known.update({outcome.case: outcome for outcome in _outcomes(evaluation)})
            played = {"cases": evaluation.cases, "returns": evaluation.returns, "status": evaluation.status}
            self.transcript.write("judge", **played, remaining=self.evaluator.remaining)
        return [known[case] for case in cases]

    def pause(self, seconds: float) -> None:
        """Wait; raise ``StopRequested`` where the agent is to stop."""
        if self.stop.wait(seconds):
            raise StopRequested("The agent was asked to stop.")

    def _asked_about(self, question: str) -> int | None:
        """Return the submission of the played candidate whose text stands last in a question; None where none does.

        Libraries of both kinds show a few candidates, and the one that is to be changed after the others.
        """
        places = {program: question.rfind(program.strip()) for program in self._submitted if program.strip()}
        program = max(places, key=lambda item: (places[item] + len(item.strip()), len(item)), default=None)
        return self._submitted[program] if program is not None and places[program] >= 0 else None

    def _go_on(self) -> None:
        if self.ended:
            raise self.ended
        if self.stop.is_set():
            self._end(StopRequested("The agent was asked to stop."))

    def _end(self, error: EvoPolicyGymError) -> None:
        self.ended = self.ended or error
        raise error


Library = Callable[[SearchContext], None]
"""Searches in a context until it is over."""


@dataclass(slots=True)
class ModelSearchAgent:
    """Has a library search, with one model."""

    upstream: ModelUpstream
    model: str
    effort: str
    episodes: int
    """A candidate's, at most."""
    library: Library
    max_turns: int = field(default=1, kw_only=True)

    @property
    def model_url(self) -> str:
        """Where its model is: by this a run knows that there is one to set limits to."""
        return self.upstream.base_url

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until the budget is spent or ``stop`` is set; raise ``AgentError`` where the model never answers."""
        from evopolicygym.agents.kit.neutral_harness.model_client import AllowanceSpent, ModelClient, ModelFailed

        with ModelClient(self.upstream, self.model, workspace) as model:
            try:
                ended = turn(lambda judge: self._search(workspace, judge, model, stop), endpoint, stop)
            except AllowanceSpent as error:
                ended = Turn(AgentEnd.ALLOWANCE_SPENT, str(error))
            except ModelFailed as error:
                if not model.has_answered:
                    raise AgentError(f"The agent can't work: {error}") from error
                ended = Turn(AgentEnd.CRASHED, str(error))
            except (AgentError, SandboxError):
                raise
            except Exception as error:  # noqa: BLE001 - a library's failure is recorded, whatever it is, with its usage
                ended = Turn(AgentEnd.CRASHED, f"{type(error).__name__}: {error}"[:500])
        return replace(ended, usage=model.usage().figures())

    def _search(self, workspace: Workspace, judge: JudgeClient, model: "ModelClient", stop: Event) -> str:
        from evopolicygym.agents.kit.neutral_harness.model_client import ConversationTooLong, Transcript

        evaluator = Evaluator(workspace, judge)

        def answer(question: str, pause: Callable[[float], None]) -> str:
            conversation = model.conversation(self.effort, bash=False)
            conversation.say(question)
            return model.ask(conversation, pause).text

        def search(evaluator: Evaluator, _seed: int) -> None:
            info = evaluator.info
            wanted = max(1, min(self.episodes, info.episode_budget // LEAST_CANDIDATES))
            cases = info.cases(0, min(info.portion(wanted, info.episode_budget), info.n_cases))
            context = SearchContext(workspace, evaluator, cases, stop, Transcript(workspace.transcript), answer)
            try:
                self.library(context)
            except Exception as error:  # noqa: BLE001 - raised again, or what it followed from
                context.ended = context.ended or error
            if isinstance(context.ended, ConversationTooLong):
                raise BudgetSpent(str(context.ended)) from context.ended
            if context.ended:
                raise context.ended

        return spend(evaluator, search, workspace.seed)


def make_model_search(config: AgentConfig, library: Library, episodes: int) -> ModelSearchAgent:
    """Return the agent whose name is its extra's and its library's; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = chosen_model(config, CONVERSATIONS)
    if find_spec(config.name) is None:
        raise MissingExtra(f"The agent {config.name!r}", config.name, config.name)
    return ModelSearchAgent(upstream, model, config.effort, episodes, library)


def mean(outcomes: Sequence[Outcome]) -> float:
    """Return the mean value; ``WORST`` where one is."""
    values = [outcome.value for outcome in outcomes]
    return WORST if WORST in values else sum(values) / len(values)


def _outcomes(evaluation: Evaluation) -> list[Outcome]:
    errors: Mapping[int, str] = evaluation.errors
    if not evaluation.returns:
        return [Outcome(case, WORST, evaluation.load_error) for case in evaluation.cases]
    # A return may be no number, or as large as any; libraries add them up.
    values = [min(max(value, WORST / 2), -WORST) if value == value else WORST / 2 for value in evaluation.returns]  # noqa: PLR0124 - NaN
    pairs = enumerate(zip(evaluation.cases, values, strict=True))
    return [Outcome(case, value, errors.get(place, "")) for place, (case, value) in pairs]
