"""What the process of a run tells its suite while it plays: typed words, one line of JSON each.

How the words travel is described in ``worker.py`` and ``play.py``.
"""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from evopolicygym.core.cases import Split
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records.jsontext import dumps


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """The process is up."""

    process: int
    cores: tuple[int, ...]
    """Those that it and all that it starts may use, as the system says."""
    kind: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True)
class RecordOpened:
    """The run's record is there, or was resumed."""

    run: str
    """Its directory."""
    kind: Literal["opened"] = "opened"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far the run is."""

    stage: Stage
    done: int
    total: int
    """Episodes of this stage: charged ones of the budget, validation's, held-out's."""
    kind: Literal["standing"] = "standing"


@dataclass(frozen=True, slots=True)
class PlannedRunStopped:
    """The run was stopped before its end, or could not be opened."""

    reason: str
    """``interrupted``, or the kind of error."""
    message: str = ""
    kind: Literal["stopped"] = "stopped"


Word = ProcessStarted | RecordOpened | RunProgress | PlannedRunStopped


def encode(word: Word) -> bytes:
    """Return a word as a line."""
    return dumps(asdict(word)).encode() + b"\n"


def decode(line: bytes) -> Word:
    """Return the word that a line holds; raise ``ValueError`` where it holds none."""
    return _adapter().validate_json(line)


@cache
def _adapter() -> TypeAdapter[Word]:
    return TypeAdapter(Annotated[Word, Field(discriminator="kind")])


def standing(state: RunState) -> RunProgress:
    """Return how far a run is."""
    match state.stage:
        case Stage.OPEN:
            return RunProgress(state.stage, state.spent, state.budget)
        case Stage.CLOSED:
            return RunProgress(state.stage, *validation_played(state))
        case Stage.SELECTED | Stage.FINISHED:
            chosen = state.selected.checkpoint if state.selected else ""
            rollout = state.rollout(Split.HELD_OUT, chosen)
            return RunProgress(state.stage, len(rollout.returns), len(rollout.episodes))


def validation_played(state: RunState) -> tuple[int, int]:
    """Return how many validation episodes were played, and of how many."""
    done = sum(len(state.rollout(Split.VALIDATION, one).returns) for one in state.checkpoints)
    return done, len(state.checkpoints) * state.opened.task.validation_cases
