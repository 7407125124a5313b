"""What an audit finds in runs: of each run in short, and of one run all findings with links to where they are.

Three things are kept apart: a run that was audited, one whose conversation couldn't be read, so that nothing is known
of it, and one that was not audited, as it isn't finished.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.audit_run import Conduct
from evopolicygym.analysis.conduct.detector import AuditFinding, Location
from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import RunState
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.transcripts import transcript_lines
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.reading import shown
from evopolicygym.viewer.documents.transcript import Index

AUDITED, UNREAD = "audited", "unread"
"""States of a run; one of which nothing is said was not audited."""
CHECKPOINTS = "checkpoints"


def audit_bundle(conducts: Mapping[str, Conduct | str]) -> dict[str, Any]:
    """Return each run's state and counts of findings by grade, by the runs' ids."""
    return {"runs": {run: _in_short(conduct) for run, conduct in conducts.items()}}


def _in_short(conduct: Conduct | str) -> dict[str, Any]:
    if isinstance(conduct, str):
        return {"state": UNREAD, "counts": {}, "why": conduct}
    state = AUDITED if conduct.is_audited else UNREAD
    counts = {grade.value: count for grade, count in conduct.counts.items()}
    return {"state": state, "counts": counts, "why": "" if conduct.is_audited else shown("; ".join(conduct.notes))}


def run_audit_bundle(conduct: Conduct | str, record: RunRecord, index: Index) -> dict[str, Any]:
    """Return all findings in a run, the gravest first."""
    short = _in_short(conduct)
    if isinstance(conduct, str):
        return {**short, "findings": [], "notes": [], "commands": 0, "programs": 0}
    offsets = _offsets(record, (finding.location for finding in conduct.findings))
    return {
        **short,
        "findings": [_finding(finding, record.state, index, offsets) for finding in conduct.findings],
        "notes": list(map(shown, conduct.notes)),
        "commands": conduct.commands,
        "programs": conduct.programs,
    }


def _finding(
    finding: AuditFinding, state: RunState, index: Index, offsets: Mapping[tuple[str, int], int]
) -> dict[str, Any]:
    location = finding.location
    offset = offsets.get((location.file, location.line))
    number = _submission_of(location, state) if offset is None else _submission_at(offset, state, index)
    return {**document(finding), "location": shown(str(location)), "submission": number, "transcript_at": offset}


def _submission_of(location: Location, state: RunState) -> int | None:
    """Return the first submission of the checkpoint that a location is in; None elsewhere."""
    folder, _, rest = location.file.partition("/")
    if folder != CHECKPOINTS:
        return None
    name = rest.partition("/")[0]
    return next((one.index for one in state.submissions if one.charged.checkpoint == name), None)


def _submission_at(offset: int, state: RunState, index: Index) -> int | None:
    """Return the submission that the agent was at work on, as the transcript tells of it next; else the last."""
    if not state.submissions:
        return None
    later = [number for number, at in index.marks.items() if at >= offset and number < len(state.submissions)]
    return min(later, default=state.submissions[-1].index)


def _offsets(record: RunRecord, locations: Iterable[Location]) -> dict[tuple[str, int], int]:
    """Return the bytes at which the transcript's lines begin that locations name."""
    transcript = record.paths.transcript.relative_to(record.paths.root).as_posix()
    wanted = {location.line for location in locations if location.file == transcript}
    offsets, offset = dict[tuple[str, int], int](), 0
    for number, line in enumerate(_lines(record.paths.transcript, record.paths.root) if wanted else (), 1):
        if number in wanted:
            offsets[transcript, number] = offset
        offset += len(line)
    return offsets


def _lines(path: Path, root: Path) -> Iterable[bytes]:
    try:
        yield from transcript_lines(path, root)
    except (OSError, RecordError):
        return
