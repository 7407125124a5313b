"""A run as an evaluator of programs: write a candidate's source, have it played, read what came of it.

An optimiser needs ``Evaluator``, ``BudgetSpent`` and ``SearchAgent`` from here and nothing else; a whole
example is in ``docs/extend/optimisers.md``. Candidates are text on this side: they run where the judge plays them, and
only there. How candidates are proposed is left to each search.
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

from evopolicygym.agents.kit.judge_client import JudgeClient, Remarks, SubmissionsClosed, Summary, replace_system, turn
from evopolicygym.core import strict_json
from evopolicygym.core.agent import JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused, UsageError

Program = str | Mapping[str, str]
"""The text of ``policy.py``, or the texts of all files of a policy project by their paths in ``system/``."""
_Files = tuple[tuple[str, str], ...]
MOST_ERROR = 4000
"""The most characters that are kept of an error: its end, where a traceback says what it was."""
REFUSED = "refused"
"""The status of a candidate that the judge would not take as a checkpoint; it cost nothing."""


class BudgetSpent(EvoPolicyGymError):
    """Fewer episodes are left than were requested: a search ends here, and lets this pass."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of one candidate on some cases."""

    cases: tuple[int, ...]
    """The train cases, in the order asked for."""
    returns: tuple[float, ...]
    """One a case; empty where the candidate could not be loaded."""
    status: str
    """``ok``; why it could not be loaded, such as ``import_error``; or ``refused``."""
    load_error: str
    """The traceback, or what the judge said; empty where it was played."""
    errors: Mapping[int, str]
    """What the policy failed with, by the place in ``returns``."""
    feedback: Path | None
    """The directory in which all that the judge shows of it lies; None where it was refused."""
    submit_index: int | None = field(default=None, kw_only=True)
    """The submission's number, to be named as the parent of what is made from it; None where it was refused."""
    remaining: int
    """Episodes left in the run."""

    @property
    def mean(self) -> float:
        """The mean return; minus infinity where nothing was played or a return is no number."""
        if not self.returns or any(map(math.isnan, self.returns)):
            return -math.inf
        return fmean(self.returns)


class Evaluator:
    """Has candidates played, for as long as the budget lasts."""

    def __init__(self, workspace: Workspace, judge: JudgeClient) -> None:
        self._workspace, self._judge = workspace, judge
        self.info = judge.info()
        """What the judge says of the run: its rules of portions, its cases, its spaces."""
        self.remaining = self.info.remaining_budget
        """Episodes left."""
        self.evaluations = 0
        """How many candidates were played, the same one on other cases counted again."""
        self._returns: dict[_Files, dict[int, float]] = {}

    @property
    def task(self) -> str:
        """What the policy is to achieve, what it sees and does and how it is called, as markdown."""
        imports = ", ".join(self.info.allowed_imports) or "nothing"
        return f"{self._judge.task()}\nBesides the standard library it can import: {imports}.\n"

    @property
    def starter(self) -> str:
        """The policy that lies in the workspace now: at the beginning, one that plays at random."""
        return (self._workspace.system / "policy.py").read_text(encoding="utf-8")

    @property
    def best(self) -> dict[str, str] | None:
        """The files of the best candidate: of those played on the most cases, that with the best mean return."""
        if not self._returns:
            return None
        files, _ = max(self._returns.items(), key=lambda item: (len(item[1]), _mean(item[1])))
        return dict(files)

    def evaluate(
        self, program: Program, cases: Iterable[int], label: str = "", said: Remarks | None = None
    ) -> Evaluation:
        """Have a candidate played on train cases, an episode each.

        Asked again for the same candidate, cases and label, it answers from what was played, also after an
        interruption, and nothing is charged. ``said`` names the submission that it was made from, or what is expected
        of it. Raises ``BudgetSpent`` with nothing charged, and ``UsageError`` for a
        file's name that leads out of ``system/``.
        """
        files, indices = _files(program), tuple(cases)
        replace_system(self._workspace.system, {name: text.encode("utf-8", "replace") for name, text in files})
        try:
            summary = self._judge.submit(indices, _key(files, indices, label), said=said)
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
        # What was played before an interruption tells how much was left then.
        self.remaining = min(self.remaining, summary.remaining_budget)
        evaluation = self._read(indices, summary)
        if evaluation.returns:
            played = self._returns.setdefault(files, {})
            played.update(zip(indices, evaluation.returns, strict=True))
        return evaluation

    def spend_rest(self) -> None:
        """Spend what is left on the best candidate, on cases that come after all that were used."""
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
            place: _text(episodes[place] / "error.txt")[-MOST_ERROR:] or "the policy failed"
            for place in summary.failed
            if place < len(episodes)
        }
        load_error = "" if summary.returns else load_error_of(feedback) or summary.status
        returns, status, index = summary.returns, summary.status, summary.submit_id
        return Evaluation(indices, returns, status, load_error, errors, feedback, self.remaining, submit_index=index)


Search = Callable[[Evaluator, int], None]
"""Proposes candidates and has them evaluated, from a seed; ends by returning or by letting ``BudgetSpent`` pass."""


@dataclass(slots=True)
class SearchAgent:
    """An agent that is a search: once the search is over, the rest of the budget goes to the best candidate."""

    search: Search
    max_turns: int = field(default=1, kw_only=True)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until the budget is spent, the search is over, or ``stop`` is set."""
        return turn(lambda judge: spend(Evaluator(workspace, judge), self.search, workspace.seed), endpoint, stop)


def spend(evaluator: Evaluator, search: Search, seed: int) -> str:
    """Search, spend the rest on the best, and return what is to be reported of it."""
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
                f"A candidate's file can't be named {name!r}: give a path relative to system/, without '..'."
            )
    return tuple(sorted(files.items()))


def _key(files: _Files, indices: tuple[int, ...], label: str) -> str:
    said = json.dumps([files, indices, label]).encode()
    return f"program-{hashlib.sha256(said).hexdigest()}"


def _mean(played: Mapping[int, float]) -> float:
    values = list(played.values())
    return -math.inf if any(map(math.isnan, values)) else fmean(values)


def load_error_of(feedback: Path) -> str:
    """Return why a submission's policy could not be loaded, as its feedback says; empty where it says nothing."""
    lines = _text(feedback / "errors.txt").splitlines()
    try:
        document = strict_json.decode(lines[0])
        return str(document.get("traceback") or document["message"])[-MOST_ERROR:]
    except (ValueError, IndexError, KeyError, AttributeError):
        return "\n".join(lines)[-MOST_ERROR:]


def _text(file: Path) -> str:
    """Return what a file of the feedback says; empty where it isn't shown."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
