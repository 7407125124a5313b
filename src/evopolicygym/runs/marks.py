"""Where the high-water marks of this machine's user lie, the key that authenticates them, and what they say of records.

They lie beside the experiments' secrets, one for each run that was played here. Their key is the user's alone and no
experiment's secret, which may be revealed, or copied with a record. ``records/high_water.py`` describes a mark.
"""

import re
import secrets
from contextlib import suppress
from pathlib import Path

from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.finding import Finding
from evopolicygym.core.places import not_kept, refuse_unwritable, state_directory
from evopolicygym.records import durable
from evopolicygym.records.high_water import HighWaterMark
from evopolicygym.records.reader import read_run
from evopolicygym.runs import experiment

KEY_FILE, KEY_BYTES = "key", 32
_KEY = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
WHAT = "high-water mark"


def mark_of(opened: RunOpened) -> HighWaterMark:
    """Return where a run's mark is kept from now on; raise ``StorageError`` where nothing can be kept."""
    return HighWaterMark(_directory(), _key_from_now_on(), opened.experiment, opened.run_id)


def refuse_unkept() -> None:
    """Raise ``UsageError`` where this user's state directory can't keep what a run needs; asked before one is begun."""
    for directory in (state_directory(), _directory()):
        refuse_unwritable(directory)


def known(root: Path) -> bool:
    """Return whether a record is of a run that this user played on this machine, and goes on from where it was left.

    False too where the record is broken, goes back or is another one, and where its mark is damaged or can't be read.
    Raises ``UsageError`` where there is no run.
    """
    with suppress(RecordError, OSError):
        return _compared(root) == ""
    return False


def is_marked(root: Path) -> bool:
    """Return whether a run bears a mark of this user: then it was begun here, and whoever plays on holds it against it.

    Raises what ``known`` returns False for, where the record or the mark is damaged.
    """
    return _compared(root) is not None


def finding(root: Path) -> Finding:
    """Return what the mark of a run says of its record; where there is no mark, nothing was checked."""
    try:
        state_directory()
    except UsageError as error:
        return Finding(WHAT, ok=True, detail=f"not checked: {error}")
    try:
        contradiction = _compared(root)
    except OSError as error:
        return Finding(WHAT, ok=True, detail=f"not checked: the state directory can't be read: {error}")
    except EvoPolicyGymError as error:
        return Finding(WHAT, ok=False, detail=str(error))
    if contradiction is None:
        return _without_mark(read_run(root).state.opened)
    return Finding(WHAT, not contradiction, contradiction or "the record goes on from where it was left here")


def _without_mark(opened: RunOpened) -> Finding:
    """Return what is found of a run without a mark: its experiment may list the runs that it began here."""
    try:
        ledger = experiment.ledger_of(opened.experiment)
    except EvoPolicyGymError as error:
        return Finding(WHAT, ok=False, detail=str(error))
    if ledger is None or opened.time < ledger.since:
        return Finding(WHAT, ok=True, detail="not checked: begun elsewhere, by another user, or before marks were kept")
    known = "its mark was removed" if opened.run_id in ledger.runs else "it began no run of this id on this machine"
    return Finding(
        WHAT,
        ok=False,
        detail=f"the run's experiment began here, and {known}: the record was changed, or comes from where its secret "
        f"was copied to",
    )


def _compared(root: Path) -> str | None:
    """Return how a record contradicts its mark, "" where it doesn't, and None where there is no mark."""
    opened = read_run(root).state.opened
    key = _key()
    mark = HighWaterMark(_directory(), key, opened.experiment, opened.run_id).read() if key else None
    if mark is None:
        return None
    record = read_run(root)  # after the mark: it may be played on at this moment
    return mark.contradiction(record.hashes, record.state.spent) or ""


def _directory() -> Path:
    return state_directory() / "marks"


def _key() -> bytes | None:
    """Return this user's key; None where no run was played yet."""
    file = _directory() / KEY_FILE
    try:
        text = file.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    if not _KEY.fullmatch(text):
        raise RecordError(f"{file} is not the key of this user's high-water marks: it was changed.")
    return bytes.fromhex(text)


def _key_from_now_on() -> bytes:
    """Return this user's key, made where there is none."""
    file = _directory() / KEY_FILE
    try:
        if key := _key():
            return key
        _directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        made = secrets.token_bytes(KEY_BYTES)
        durable.create_text(file, made.hex())
        file.chmod(0o600)
    except FileExistsError:  # another run of this user began at the same moment
        return _key_from_now_on()
    except OSError as error:
        raise not_kept("The key of high-water marks", error) from error
    return made
