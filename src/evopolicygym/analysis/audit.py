"""The audit of a record: recomputes it from the journal and reports every difference.

It reads files only; ``runs/replay.py`` plays held-out cases again, which takes simulators.
"""

import json
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import RunFinished, RunStatus
from evopolicygym.core.finding import Finding
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.spaces import from_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.feedback import feedback_sha256, log_sha256
from evopolicygym.records.paths import SUMMARY, RunPaths
from evopolicygym.records.post_hoc import post_hoc_sha256, read_post_hoc
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.run_document import MAX_BYTES, document_text, read_stage
from evopolicygym.records.trajectories import read_steps

DOCUMENT = "run.json"
MOST_NAMED = 8
"""Episodes that are named."""


def audit(root: Path) -> Iterator[Finding]:
    """Yield the findings of a run's audit; a broken journal is the last finding, as all others depend on it.

    Raises ``UsageError`` if there is no run.
    """
    try:
        record = read_run(root)
    except RecordError as error:
        yield Finding("journal", ok=False, detail=str(error))
        return
    state, paths = record.state, record.paths
    yield _journal(record)
    yield Finding("budget", state.spent <= state.budget, f"{state.spent} of {state.budget} episodes charged")
    yield from _checkpoints(state, paths)
    yield from _feedback(state, paths)
    for change in state.program_changes:
        changed = f"changed when the run was resumed at {change.time}: SHA-256 {change.program_sha256[:12]}…"
        yield Finding("agent's program", ok=True, detail=changed)
    if not state.finished:
        return
    if state.finished.status is RunStatus.SCORED:
        yield _evaluation(state, state.finished.evaluation_sha256, paths)
    yield from _logs(state.finished, paths)
    yield from _post_hoc(state, paths)
    yield _document(paths)
    if state.finished.score is not None:
        yield Finding("score", ok=True, detail=f"{state.finished.score:.6g}, recomputed from its held-out cases")


def _journal(record: RunRecord) -> Finding:
    """Return the finding about a readable journal: it includes the end of the run if ``run.json`` does."""
    state, torn = record.state, f"; {record.torn} bytes at its end are no line" if record.torn else ""
    detail = f"{len(record.events)} events, chain unbroken, every rule kept{torn}"
    if state.stage is Stage.FINISHED:
        return Finding("journal", not torn, detail)
    if read_stage(record.paths) == Stage.FINISHED:
        return Finding("journal", ok=False, detail=f"{detail}; run.json has seen the run finished, the journal has not")
    return Finding("journal", ok=True, detail=detail)


def _evaluation(state: RunState, expected: str, paths: RunPaths) -> Finding:
    if not expected:
        return Finding("evaluation", ok=False, detail="no hash of the hidden episodes is recorded of a scored run")
    if not os.path.lexists(paths.evaluation):
        detail = "the hidden episodes' files were left out of this record; --replay plays them again in their stead"
        return Finding("evaluation", ok=False, detail=detail, settled_by_replay=True)
    other = "the hidden episodes' files are not those that were scored"
    found = _same("evaluation", expected, lambda: feedback_sha256(paths.evaluation, paths.root), other)
    return found if not found.ok else _returns(state, paths)


def _returns(state: RunState, paths: RunPaths) -> Finding:
    """Return whether the hidden episodes' returns are the sums of their rewards."""
    space = from_schema(state.opened.action_schema)
    wrong: list[str] = []
    for rollout in state.hidden:
        for position, episode in enumerate(rollout.episodes):
            if episode is None:
                continue
            directory = paths.hidden_episode(rollout.split, rollout.checkpoint, position)
            try:
                rewards = [step.reward for step in read_steps(directory, space, space, root=paths.root) or ()]
            except (OSError, RecordError) as error:
                return Finding("evaluation", ok=False, detail=str(error))
            if (len(rewards), math.fsum(rewards)) != (episode.length, episode.episode_return):
                wrong.append(f"{rollout.split.value} {position} of {rollout.checkpoint[:12]}")
    if not wrong:
        return Finding("evaluation", ok=True)
    named = f"{', '.join(wrong[:MOST_NAMED])}{', …' if len(wrong) > MOST_NAMED else ''}"
    return Finding("evaluation", ok=False, detail=f"returns that are not the sum of the recorded rewards: {named}")


def _logs(finished: RunFinished, paths: RunPaths) -> Iterator[Finding]:
    """Yield whether the agent's logs are unchanged since the run ended; a record may lack a log."""
    for path in paths.agent_logs:
        expected, there = finished.logs_sha256.get(path.name, ""), os.path.lexists(path)
        if there:
            other = "is not as it was when the run ended" if expected else "was not there when the run ended"
            yield _same(path.name, expected, partial(log_sha256, path, paths.root), other)
        elif expected:
            yield Finding(path.name, ok=True, detail="was left out of this record; nothing of it was checked")


def _post_hoc(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    """Yield whether the post-hoc results match the journal's hashes; a record may lack them."""
    what = paths.post_hoc.name
    try:
        known = read_post_hoc(paths) or {}
    except (OSError, RecordError) as error:
        yield Finding(what, ok=False, detail=str(error))
        return
    wrong = [name for name, found in known.items() if state.post_hoc.get(name) != post_hoc_sha256(found)]
    left_out = len(state.post_hoc.keys() - known.keys())
    named = ", ".join(name[:12] for name in wrong[:MOST_NAMED])
    if wrong:
        yield Finding(what, ok=False, detail=f"not as it was played: {named}")
    elif known or left_out:
        more = f"; {left_out} were left out of this record" if left_out else ""
        yield Finding(what, ok=True, detail=f"{len(known)} checkpoints as they were played{more}")


def _same(what: str, expected: str, found: Callable[[], str], other: str) -> Finding:
    """Return whether the value is the expected one, or why it can't be read."""
    try:
        intact = found() == expected
    except FileNotFoundError:
        intact = False
    except (OSError, RecordError) as error:
        return Finding(what, ok=False, detail=f"{other}: {error}")
    return Finding(what, intact, "" if intact else other)


def _checkpoints(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    for name in dict.fromkeys(submission.charged.checkpoint for submission in state.submissions):
        other = "its content is not what its name says"
        yield _same(f"checkpoint {name[:12]}", name, partial(_name_of, paths, name), other)


def _name_of(paths: RunPaths, checkpoint: str) -> str:
    return name_of(paths.checkpoint(checkpoint), paths.root)


def _feedback(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    if not os.path.lexists(paths.feedback):  # most of a record's size, of which no score is made
        yield Finding("feedback", ok=True, detail="all of it was left out of this record; nothing of it was checked")
        return
    for submission in state.submissions:
        if not submission.published:
            continue
        directory = paths.published_feedback(submission.index)
        expected = submission.published.feedback_sha256
        found = partial(feedback_sha256, directory, paths.root)
        same = _same(f"feedback {directory.name}", expected, found, "its files are not those that were published")
        yield same if not same.ok else _summary(same.name, submission, directory / SUMMARY, paths.root)


def _summary(what: str, submission: SubmissionState, file: Path, root: Path) -> Finding:
    """Return whether the agent was shown the returns of the journal."""
    if submission.status is not SubmissionStatus.OK:
        return Finding(what, ok=True)
    try:
        shown = json.loads(regular_file.read(file, MAX_BYTES, root))["returns"]
    except (OSError, RecordError, ValueError, KeyError, TypeError, RecursionError) as error:
        return Finding(what, ok=False, detail=f"its summary can't be read: {type(error).__name__}: {error}")
    same = shown == json.loads(dumps(submission.returns))
    return Finding(what, same, "" if same else "the returns that it shows are not those of the journal")


def _document(paths: RunPaths) -> Finding:
    try:
        text = regular_file.read(paths.document, MAX_BYTES)
        written = json.loads(text)
    except (OSError, RecordError, ValueError, RecursionError) as error:
        return Finding(DOCUMENT, ok=False, detail=f"can't be read: {error}")
    if text == document_text(paths).encode():
        return Finding(DOCUMENT, ok=True)
    derived = json.loads(document_text(paths))
    if not isinstance(written, dict):
        return Finding(DOCUMENT, ok=False, detail="holds no document of a run")
    different = sorted(key for key in derived.keys() | written.keys() if derived.get(key) != written.get(key))
    detail = f"differs from the journal in {', '.join(different)}" if different else "is not spelled as it was written"
    return Finding(DOCUMENT, ok=False, detail=detail)
