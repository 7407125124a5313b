"""Evaluates candidate programs through a run's judge, for optimisers.

An optimiser needs only ``Evaluator``, ``BudgetSpent`` and ``SearchAgent``; ``docs/extend/optimisers.md`` has a complete
example. Candidates are plain text in this process; they run only where the judge plays policies.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import fmean
from threading import Event

from evopolicygym.agents.kit.judge_client import JudgeClient, Remarks, SubmissionsClosed, Summary, turn
from evopolicygym.core import regular_file, strict_json
from evopolicygym.core.agent import SKILL, SKILL_ENTRY, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.beneath import replace_content
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, RefusalStatus, RequestRefused, UsageError

Program = str | Mapping[str, str]
"""The text of ``policy.py``, or the text of each file of a policy project by path in ``system/``."""
_Files = tuple[tuple[str, str], ...]
MOST_ERROR = 4000
"""Maximum length of an error in characters; its end is kept, where a traceback names the exception."""
MOST_TEXT = 64 << 20
"""The largest file of a policy or of feedback that is read, in bytes."""
REFUSED = "refused"
"""The status of a candidate that the judge rejected as a checkpoint, at no charge."""


class BudgetSpent(EvoPolicyGymError):
    """Fewer episodes are left than requested; a search should end without catching this."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a candidate on some cases."""

    cases: tuple[int, ...]
    """The train cases, in the order requested."""
    returns: tuple[float, ...]
    """The return of each case; empty if the candidate could not be loaded."""
    status: str
    """``ok``; why it could not be loaded, such as ``import_error``; or ``refused``."""
    load_error: str
    """The traceback or the judge's message; empty if it was played."""
    errors: Mapping[int, str]
    """The error of each failed episode, by index into ``returns``."""
    feedback: Path | None
    """The directory of the submission's feedback; None if it was refused."""
    submit_index: int | None = field(default=None, kw_only=True)
    """The submission's number, for use as a later candidate's parent; None if it was refused."""
    remaining: int
    """Episodes left in the run."""

    @property
    def mean(self) -> float:
        """The mean return; minus infinity if nothing was played or a return is NaN."""
        if not self.returns or any(map(math.isnan, self.returns)):
            return -math.inf
        return fmean(self.returns)


class Evaluator:
    """Plays candidates until the budget is spent."""

    def __init__(self, workspace: Workspace, judge: JudgeClient) -> None:
        self._workspace, self._judge = workspace, judge
        self.info = judge.info()
        """The run's limits, cases and spaces."""
        self.remaining = self.info.remaining_budget
        """Episodes left."""
        self.evaluations = 0
        """Number of evaluations; the same candidate on other cases counts again."""
        self._returns: dict[_Files, dict[int, float]] = {}

    @property
    def task(self) -> str:
        """The task description as Markdown: the goal, observations, actions and how the policy is called.

        It ends with the skill that the agent was handed, if any.
        """
        imports = ", ".join(self.info.allowed_imports) or "nothing"
        text = f"{self._judge.task()}\nBesides the standard library it can import: {imports}.\n"
        with suppress(FileNotFoundError):
            skill = regular_file.read(
                self._workspace.directory / SKILL / SKILL_ENTRY, MOST_TEXT, self._workspace.directory
            )
            text += f"\n## Advice on tasks of this kind\n{skill.decode('utf-8', 'replace')}\n"
        return text

    @property
    def starter(self) -> str:
        """The policy in the workspace; at the start of a run, one that plays at random."""
        file = self._workspace.system / "policy.py"
        return regular_file.read(file, MOST_TEXT, self._workspace.directory).decode("utf-8")

    @property
    def best(self) -> dict[str, str] | None:
        """The files of the candidate with the best mean return among those played on the most cases."""
        if not self._returns:
            return None
        files, _ = max(self._returns.items(), key=lambda item: (len(item[1]), _mean(item[1])))
        return dict(files)

    def evaluate(
        self, program: Program, cases: Iterable[int], label: str = "", remarks: Remarks | None = None
    ) -> Evaluation:
        """Play a candidate on train cases, one episode each.

        Repeating the same candidate, cases and label returns the recorded result without a charge, also after the run
        was interrupted. ``remarks`` can name the candidate's parent and its expected effect. Raises ``BudgetSpent``
        without a charge, and ``UsageError`` for a file name that leads out of ``system/``.
        """
        files, indices = _files(program), tuple(cases)
        replace_content(self._workspace.system, {name: text.encode("utf-8", "replace") for name, text in files})
        try:
            summary = self._judge.submit(indices, _key(files, indices, label), remarks=remarks)
        except SubmissionsClosed as closed:
            self.remaining = 0
            raise BudgetSpent(str(closed)) from closed
        except RequestRefused as refused:
            if refused.status == RefusalStatus.BUDGET_INVALID and len(indices) > self.remaining:
                message = f"{len(indices)} episodes requested; {self.remaining} are left."
                raise BudgetSpent(message) from refused
            if refused.status == RefusalStatus.INVALID_CHECKPOINT:
                return Evaluation(indices, (), REFUSED, str(refused), {}, None, self.remaining)
            raise
        self.evaluations += 1
        # A repeated submission reports the budget at its own time.
        self.remaining = min(self.remaining, summary.remaining_budget)
        evaluation = self._read(indices, summary)
        if evaluation.returns:
            played = self._returns.setdefault(files, {})
            played.update(zip(indices, evaluation.returns, strict=True))
        return evaluation

    def check(self, program: Program) -> str:
        """Return why the judge can't construct a candidate or have it act once; empty if it can, or doesn't say.

        Nothing is charged. Raises ``UsageError`` for a file name that leads out of ``system/``.
        """
        contents = {name: text.encode("utf-8", "replace") for name, text in _files(program)}
        replace_content(self._workspace.system, contents)
        try:
            answer = self._judge.check()
        except SubmissionsClosed as closed:
            self.remaining = 0
            raise BudgetSpent(str(closed)) from closed
        except RequestRefused as refused:  # there may be no further trials, which is no fault of the candidate
            return str(refused) if refused.status == RefusalStatus.INVALID_CHECKPOINT else ""
        if answer.get("status") == "ok":
            return ""
        error = answer.get("error")
        fields = error if isinstance(error, Mapping) else {}
        return str(fields.get("traceback") or fields.get("message") or answer.get("status"))[-MOST_ERROR:]

    def spend_rest(self) -> None:
        """Spend the remaining budget on the best candidate, on cases after those already used."""
        files = self.best or {"policy.py": self.starter}
        first = 1 + max((case for played in self._returns.values() for case in played), default=-1)
        with suppress(BudgetSpent):
            while self.remaining:
                before = self.remaining
                count = self.info.portion(before, before)
                evaluation = self.evaluate(files, self.info.cases(first, count), label=f"rest of {before}")
                if evaluation.status == REFUSED:
                    return
                first += count

    def _read(self, indices: tuple[int, ...], summary: Summary) -> Evaluation:
        feedback = self._workspace.directory / "feedback" / f"submit_{summary.submit_id:03d}"
        episodes = sorted((feedback / "episodes").glob("ep_*"))
        errors = {
            episode: _text(episodes[episode] / "error.txt")[-MOST_ERROR:] or "the policy failed"
            for episode in summary.failed
            if episode < len(episodes)
        }
        load_error = "" if summary.returns else load_error_of(feedback) or summary.status
        returns, status, index = summary.returns, summary.status, summary.submit_id
        return Evaluation(indices, returns, status, load_error, errors, feedback, self.remaining, submit_index=index)


Search = Callable[[Evaluator, int], None]
"""Proposes and evaluates candidates, given a seed; ends by returning or by raising ``BudgetSpent``."""


@dataclass(slots=True)
class SearchAgent:
    """An agent that runs a search and spends the remaining budget on its best candidate."""

    search: Search
    max_turns: int = field(default=1, kw_only=True)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until the budget is spent, the search is over, or ``stop`` is set."""
        return turn(lambda judge: spend(Evaluator(workspace, judge), self.search, workspace.seed), endpoint, stop)


def spend(evaluator: Evaluator, search: Search, seed: int) -> str:
    """Search, spend the remaining budget on the best candidate, and return the turn's message."""
    with suppress(BudgetSpent):
        search(evaluator, seed)
    evaluator.spend_rest()
    return f"{evaluator.evaluations} evaluations"


def _files(program: Program) -> _Files:
    files = {"policy.py": program} if isinstance(program, str) else program
    for name in files:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise UsageError(
                f"Invalid file name {name!r} of a candidate: expected a path relative to system/, without '..'."
            )
    return tuple(sorted(files.items()))


def _key(files: _Files, indices: tuple[int, ...], label: str) -> str:
    content = json.dumps([files, indices, label]).encode()
    return f"program-{hashlib.sha256(content).hexdigest()}"


def _mean(played: Mapping[int, float]) -> float:
    values = list(played.values())
    return -math.inf if any(map(math.isnan, values)) else fmean(values)


def load_error_of(feedback: Path) -> str:
    """Return why a submission's policy could not be loaded, from its feedback; empty if that has no error."""
    lines = _text(feedback / "errors.txt").splitlines()
    try:
        document = strict_json.decode(lines[0])
        return str(document.get("traceback") or document["message"])[-MOST_ERROR:]
    except (ValueError, IndexError, KeyError, AttributeError):
        return "\n".join(lines)[-MOST_ERROR:]


def _text(file: Path) -> str:
    """Return the text of a file of a submission's feedback; empty if it isn't published, or not a regular file."""
    try:
        return regular_file.read(file, MOST_TEXT).decode("utf-8", "replace")
    except (OSError, RecordError):
        return ""
