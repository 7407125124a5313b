"""What the process of a run tells its suite while it plays: typed messages, one line of JSON each.

How messages travel is described in ``worker.py`` and ``play.py``.
"""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from evopolicygym.records.jsontext import dumps
from evopolicygym.runs.progress import RunProgress


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
class PlannedRunStopped:
    """The run was stopped before its end, or could not be opened."""

    reason: str
    """``interrupted``, or the kind of error."""
    message: str = ""
    kind: Literal["stopped"] = "stopped"


Message = ProcessStarted | RecordOpened | RunProgress | PlannedRunStopped


def encode(message: Message) -> bytes:
    """Return a message as a line."""
    return dumps(asdict(message)).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the message that a line holds; raise ``ValueError`` where it holds none."""
    return _adapter().validate_json(line)


@cache
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Annotated[Message, Field(discriminator="kind")])
