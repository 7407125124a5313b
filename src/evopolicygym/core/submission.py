"""Submissions: statuses, kinds of edits, and the parsing of requested train cases and films."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evopolicygym.core.errors import RefusalStatus, RequestRefused


class SubmissionStatus(StrEnum):
    """How a submission ended. Only ``ok`` submissions are candidates for selection."""

    OK = "ok"
    """Every episode was played to its end; some may be marked failed."""
    MISSING_POLICY = "missing_policy"
    """``policy.py`` defines no class ``Policy``."""
    IMPORT_ERROR = "import_error"
    """It raised an exception on import."""
    INIT_ERROR = "init_error"
    """``Policy()`` raised an exception, or its process died while loading."""
    INIT_TIMEOUT = "init_timeout"
    """Import or construction took too long."""
    INTERRUPTED = "interrupted"
    """The run was stopped while it was playing; resuming plays the missing episodes without a new charge."""
    OTHER = "other"
    """In a record of the paper's release: a status that has no counterpart; its error names it."""


class EditKind(StrEnum):
    """The kind of a submission's edit."""

    NONE = "none"
    """Not a byte differs from the submission before."""
    COSMETIC = "cosmetic"
    """Names, order, annotations, comments, docstrings or notes: nothing that it does."""
    REVERT = "revert"
    """A return to the program of an earlier submission, or to the starter."""
    REPAIR = "repair"
    """An edit that continues and repairs one that could not be loaded, or failed in all its episodes."""
    PARAMETRIC = "parametric"
    """Literals or data: settings of the same program."""
    STRUCTURAL = "structural"
    """Another program."""


@dataclass(frozen=True, slots=True)
class LoadError:
    """Why a policy could not be constructed."""

    status: SubmissionStatus
    message: str
    traceback: str = ""


Setting = bool | int | float | str
"""The value of a policy's parameter."""
STARTER = -1
"""The starter policy, in place of a submission's index."""
FILMS_A_SUBMISSION = 4
"""The limit on films of a submission, since the agent waits for them."""
_RANGES = re.compile(r"\s*\d{1,9}(\s*-\s*\d{1,9})?\s*(,\s*\d{1,9}(\s*-\s*\d{1,9})?\s*)*", re.ASCII)


def parse_env_instances(asked: object, n_cases: int, most: int) -> tuple[int, ...]:
    """Return the train case indices of a request, in order and with repetitions.

    ``asked`` is a list of ints (``[0, 1, 2]``) or text (``"0-3,7"``; ranges are closed). ``n_cases`` is the number of
    train cases, ``most`` the limit on indices; longer requests are rejected before they are expanded. Raises
    ``RequestRefused``.
    """
    return Indices("env_instances", n_cases, most, "episodes requested; one submission may play").read(asked)


def parse_films(asked: object, env_instances: Sequence[int], n_cases: int, allowed: int, left: int) -> tuple[int, ...]:
    """Return the positions in ``env_instances`` of the episodes to film; raise ``RequestRefused``.

    ``asked`` names some of the submission's train cases in the form of ``env_instances``; None and an empty list mean
    none. A repeated case is filmed at its first position, as all its episodes are the same. ``allowed`` is the number
    of films of the run, ``left`` the number that is left.
    """
    if asked is None or asked == []:
        return ()
    if not allowed:
        raise RequestRefused(
            RefusalStatus.INVALID_REQUEST, "films: this run makes no films for its agent; leave the field out."
        )
    words = Indices("films", n_cases, FILMS_A_SUBMISSION, "films requested; one submission may have")
    cases = words.read(asked)
    for position, case in enumerate(cases):
        if case in cases[:position]:
            raise words.refused(f"index {case} is named twice; a case has one film")
        if case not in env_instances:
            raise words.refused(f"index {case} is not among the submission's env_instances")
    if len(cases) > left:
        raise RequestRefused(
            RefusalStatus.BUDGET_INVALID,
            f"{len(cases)} films requested; {left} of the run's {allowed} are left.",
        )
    return tuple(env_instances.index(case) for case in cases)


def films_fit(positions: Sequence[int], episodes: int, left: int) -> bool:
    """Return whether ``parse_films`` could have returned these positions."""
    known = all(0 <= position < episodes for position in positions)
    return known and len(set(positions)) == len(positions) <= min(left, FILMS_A_SUBMISSION)


@dataclass(frozen=True, slots=True)
class Indices:
    """Parses a field of a request that names cases."""

    field: str
    n_cases: int
    most: int
    too_many: str
    """The text between the number requested and ``at most N`` in a refusal."""

    def read(self, asked: object) -> tuple[int, ...]:
        """Return the indices; raise ``RequestRefused`` with the field, the rule and the value."""
        match asked:
            case list():
                return self._of_list(asked)
            case str():
                return self._of_text(asked)
            case _:
                raise self.refused(f"expected a list of integers or text such as '0-3,7', got {_brief(asked)}")

    def refused(self, why: str) -> RequestRefused:
        """Return the refusal of a value."""
        return RequestRefused(RefusalStatus.INVALID_ENV_INSTANCE, f"{self.field}: {why}.")

    def _of_list(self, asked: list[object]) -> tuple[int, ...]:
        if not asked:
            raise self.refused("the list is empty; name at least one index")
        self._bound(len(asked))
        return tuple(self._index(value) for value in asked)

    def _of_text(self, asked: str) -> tuple[int, ...]:
        if not _RANGES.fullmatch(asked):
            raise self.refused(f"{_brief(asked)} is not a list of indices and closed ranges such as '0-3,7'")
        indices: list[int] = []
        for part in asked.split(","):
            first, _, last = (piece.strip() for piece in part.partition("-"))
            low, high = self._index(int(first)), self._index(int(last or first))
            if high < low:
                raise self.refused(f"the range {part.strip()!r} ends before it begins")
            self._bound(len(indices) + high - low + 1)
            indices.extend(range(low, high + 1))
        return tuple(indices)

    def _bound(self, count: int) -> None:
        if count > self.most:
            raise RequestRefused(RefusalStatus.BUDGET_INVALID, f"{count} {self.too_many} at most {self.most}.")

    def _index(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refused(f"an index must be an integer, not {_brief(value)}")
        if not 0 <= value < self.n_cases:
            raise self.refused(f"index {_brief(value)} is outside 0 to {self.n_cases - 1}")
        return value


def _brief(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth
