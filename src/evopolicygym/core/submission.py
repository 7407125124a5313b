"""A submission: a checkpoint plus train case indices, and how an agent writes the indices."""

import re
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
    """It raised while it was imported."""
    INIT_ERROR = "init_error"
    """It raised while ``Policy`` was constructed, or died while loading."""
    INIT_TIMEOUT = "init_timeout"
    """It ran out of time while loading or constructing."""
    INTERRUPTED = "interrupted"
    """The run was stopped while it played; resuming plays the missing episodes and charges nothing again."""


@dataclass(frozen=True, slots=True)
class LoadError:
    """Why a policy could not be constructed."""

    status: SubmissionStatus
    message: str
    traceback: str = ""


_RANGES = re.compile(r"\s*\d{1,9}(\s*-\s*\d{1,9})?\s*(,\s*\d{1,9}(\s*-\s*\d{1,9})?\s*)*", re.ASCII)


def parse_env_instances(asked: object, n_cases: int, most: int) -> tuple[int, ...]:
    """Return the train case indices that a request names, in their order and with their repeats.

    ``asked`` is a list of ints (``[0, 1, 2]``) or text (``"0-3,7"``; ranges are closed). ``n_cases`` is how many
    train cases there are, ``most`` how many indices are read at the most: a longer request is refused before it is
    expanded. Raises ``RequestRefused``.
    """
    match asked:
        case list():
            return _parse_list(asked, n_cases, most)
        case str():
            return _parse_text(asked, n_cases, most)
        case _:
            raise _refused(f"a list of integers or text such as '0-3,7' is due, not {_brief(asked)}")


def _parse_list(asked: list[object], n_cases: int, most: int) -> tuple[int, ...]:
    if not asked:
        raise _refused("the list is empty; name at least one index")
    if len(asked) > most:
        raise _too_many(len(asked), most)
    return tuple(_index(value, n_cases) for value in asked)


def _parse_text(asked: str, n_cases: int, most: int) -> tuple[int, ...]:
    if not _RANGES.fullmatch(asked):
        raise _refused(f"{_brief(asked)} is no list of indices and closed ranges such as '0-3,7'")
    indices: list[int] = []
    for part in asked.split(","):
        first, _, last = (piece.strip() for piece in part.partition("-"))
        low, high = _index(int(first), n_cases), _index(int(last or first), n_cases)
        if high < low:
            raise _refused(f"the range {part.strip()!r} ends before it begins")
        if len(indices) + high - low + 1 > most:
            raise _too_many(len(indices) + high - low + 1, most)
        indices.extend(range(low, high + 1))
    return tuple(indices)


def _index(value: object, n_cases: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(f"an index must be an integer, not {_brief(value)}")
    if not 0 <= value < n_cases:
        raise _refused(f"index {_brief(value)} is outside 0 to {n_cases - 1}")
    return value


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_ENV_INSTANCE, f"env_instances: {why}.")


def _too_many(count: int, most: int) -> RequestRefused:
    return RequestRefused(
        RefusalStatus.BUDGET_INVALID, f"{count} episodes were asked for; one submission may play at most {most}."
    )


def _brief(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line's worth
