"""All that can be said of a record without playing anything: every statement of it that can be is recomputed.

It reads files only; ``runs/replay.py`` plays hidden cases again, which takes simulators. The high-water mark can be
checked where the run was played, the commitment where the secret is known.
"""

import json
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.agent import SKILL
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.event import RunFinished, RunOpened, RunStatus
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.spaces import from_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records import experiment
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.feedback import feedback_sha256, log_sha256
from evopolicygym.records.nonce import nonce_finding
from evopolicygym.records.paths import SUMMARY, RunPaths
from evopolicygym.records.post_hoc import post_hoc_sha256, read_post_hoc
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.release import UNCHECKED as UNCHECKED_RELEASE
from evopolicygym.records.release import is_release
from evopolicygym.records.rollback_guard import FINDING, mark_finding
from evopolicygym.records.run_document import MAX_BYTES, read_stage, record_text
from evopolicygym.records.skill import is_unchanged
from evopolicygym.records.trajectories import read_steps
from evopolicygym.specs.catalog import spec_sha256
from evopolicygym.specs.pack_catalog import is_shipped

JOURNAL, DOCUMENT, COMMITMENT, TASK = "journal", "run.json", "commitment", "task"
UNREADABLE = "unreadable"
"""The verdict on a record of which nothing else can be checked."""
UNREAD = "unread"
"""The verdict on a ``run.json`` that is missing or half-written: nothing is lost, as it is derived."""
UNCHECKED = "unchecked"
"""The verdict on what can't be checked here."""
CHECKPOINTS = "checkpoints"
"""The finding on checkpoints that a record lacks."""
MOST_NAMED = 8
"""Episodes that are named."""


def findings(root: Path) -> Iterator[CheckResult]:
    """Yield what was checked of a run's record; a broken event log is the only finding, as all others depend on it.

    Raises ``UsageError`` where there is no run.
    """
    if is_release(root):
        yield CheckResult(
            "journal", ok=False, detail=f"there is none: {UNCHECKED_RELEASE}, of which nothing can be checked"
        )
        return
    try:
        record = read_run(root)
    except RecordError as error:
        yield CheckResult(JOURNAL, ok=False, detail=str(error), verdict=UNREADABLE)
        return
    yield from findings_of(record)


def findings_of(record: RunRecord) -> Iterator[CheckResult]:
    """Yield what was checked of a record that could be read."""
    state, paths = record.state, record.paths
    yield _journal(record)
    yield _task(state.opened)
    yield CheckResult("budget", state.spent <= state.budget, f"{state.spent} of {state.budget} episodes charged")
    yield from _checkpoints(state, paths)
    yield from _feedback(state, paths)
    if state.opened.task.skill:
        yield _skill(state.opened.task.skill, paths)
    for change in state.program_changes:
        changed = f"changed when the run was resumed at {change.time}: SHA-256 {change.program_sha256[:12]}…"
        yield CheckResult("agent's program", ok=True, detail=changed)
    if state.finished:
        if state.finished.status is RunStatus.SCORED:
            yield _evaluation(state, state.finished.evaluation_sha256, paths)
        yield from _logs(state.finished, paths)
        yield from _post_hoc(state, paths)
        yield _document(record)
        if state.finished.score is not None:
            yield CheckResult(
                "score", ok=True, detail=f"{state.finished.score:.6g}, recomputed from its held-out cases"
            )
    yield mark_finding(record) or _without_mark(record)
    yield _commitment(paths.root, state.opened)
    if (nonce := nonce_finding(paths.root, state.opened)) is not None:
        yield nonce


def _task(opened: RunOpened) -> CheckResult:
    """Return whether the recorded fingerprint is that of the recorded task, and whether that task ships."""
    spec, stated = opened.task.environment, opened.spec_sha256
    computed = spec_sha256(spec)
    if computed != stated:
        detail = f"the fingerprint of the recorded task is {computed[:12]}…, the record states {stated[:12]}…"
        return CheckResult(TASK, ok=False, detail=detail)
    if is_shipped(spec):
        world = f", in the world {spec.world.name}" if spec.world else ""
        return CheckResult(TASK, ok=True, detail=f"{spec.name} as it ships{world}")
    return CheckResult(TASK, ok=True, detail=f"a task of its own named {spec.name}, fingerprint {computed[:12]}…")


def _skill(identity: str, paths: RunPaths) -> CheckResult:
    try:
        unchanged = is_unchanged(paths.workspace, identity)
    except FileNotFoundError:
        return CheckResult(SKILL, ok=True, detail=f"not checked: {identity} is not in the record", verdict=UNCHECKED)
    except (OSError, RecordError) as error:
        return CheckResult(SKILL, ok=False, detail=str(error))
    detail = identity if unchanged else f"its files in the workspace are not those of {identity}"
    return CheckResult(SKILL, unchanged, detail)


def _commitment(root: Path, opened: RunOpened) -> CheckResult:
    try:
        experiment.committed_cases(opened, experiment.of_run(root, opened))
    except UsageError:
        detail = "not checked: the secret is neither on this machine nor revealed"
        return CheckResult(COMMITMENT, ok=True, detail=detail, verdict=UNCHECKED)
    except EvoPolicyGymError as error:
        return CheckResult(COMMITMENT, ok=False, detail=str(error))
    return CheckResult(COMMITMENT, ok=True, detail="the cases are those that the run committed to when it was opened")


def _without_mark(record: RunRecord) -> CheckResult:
    """Return what is found of a run without a mark: its experiment may list the runs that it began or gathered here."""
    opened = record.state.opened
    try:
        ledger = experiment.ledger_of(opened.experiment)
        elsewhere = ledger is None or opened.time < ledger.since or _may_be_of_another_machine(opened, ledger)
    except EvoPolicyGymError as error:
        return CheckResult(FINDING, ok=False, detail=str(error))
    if ledger is None or elsewhere:
        detail = "not checked: begun elsewhere, by another user, or before marks were kept"
        return CheckResult(FINDING, ok=True, detail=detail, verdict=UNCHECKED)
    if last := ledger.gathered.get(opened.run_id):
        if last in record.hashes:
            return CheckResult(FINDING, ok=True, detail="not checked: gathered from a shard", verdict=UNCHECKED)
        return CheckResult(FINDING, ok=False, detail="the record is not the one that was gathered from a shard")
    known = "its mark was removed" if opened.run_id in ledger.runs else "it began no run of this id on this machine"
    return CheckResult(
        FINDING,
        ok=False,
        detail=f"the run's experiment began here, and {known}: the record was changed, or comes from where its secret "
        f"was copied to",
    )


def _may_be_of_another_machine(opened: RunOpened, ledger: experiment.Ledger) -> bool:
    return opened.run_id not in ledger.runs and experiment.is_shared(opened.experiment)


def _journal(record: RunRecord) -> CheckResult:
    """Return the finding about a readable journal: it includes the end of the run if ``run.json`` does."""
    state, torn = record.state, f"; {record.torn} bytes at its end are no line" if record.torn else ""
    detail = f"{len(record.events)} events, chain unbroken, every rule kept{torn}"
    if state.stage is Stage.FINISHED:
        return CheckResult("journal", not torn, detail)
    if read_stage(record.paths) == Stage.FINISHED:
        return CheckResult(
            "journal", ok=False, detail=f"{detail}; run.json has seen the run finished, the journal has not"
        )
    return CheckResult("journal", ok=True, detail=detail)


def _evaluation(state: RunState, expected: str, paths: RunPaths) -> CheckResult:
    if not expected:
        return CheckResult("evaluation", ok=False, detail="no hash of the hidden episodes is recorded of a scored run")
    if not os.path.lexists(paths.evaluation):
        detail = "the hidden episodes' files were left out of this record; --replay plays them again in their stead"
        return CheckResult("evaluation", ok=False, detail=detail, settled_by_replay=True)
    other = "the hidden episodes' files are not those that were scored"
    finding = _same("evaluation", expected, lambda: feedback_sha256(paths.evaluation, paths.root), other)
    return finding if not finding.ok else _returns(state, paths)


def _returns(state: RunState, paths: RunPaths) -> CheckResult:
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
                return CheckResult("evaluation", ok=False, detail=str(error))
            if (len(rewards), math.fsum(rewards)) != (episode.length, episode.episode_return):
                wrong.append(f"{rollout.split.value} {position} of {rollout.checkpoint[:12]}")
    if not wrong:
        return CheckResult("evaluation", ok=True)
    named = f"{', '.join(wrong[:MOST_NAMED])}{', …' if len(wrong) > MOST_NAMED else ''}"
    return CheckResult("evaluation", ok=False, detail=f"returns that are not the sum of the recorded rewards: {named}")


def _logs(finished: RunFinished, paths: RunPaths) -> Iterator[CheckResult]:
    """Yield whether the agent's logs are unchanged since the run ended; a record may lack a log."""
    for path in paths.agent_logs:
        expected, there = finished.logs_sha256.get(path.name, ""), os.path.lexists(path)
        if there:
            other = "is not as it was when the run ended" if expected else "was not there when the run ended"
            yield _same(path.name, expected, partial(log_sha256, path, paths.root), other)
        elif expected:
            yield CheckResult(path.name, ok=True, detail="was left out of this record; nothing of it was checked")


def _post_hoc(state: RunState, paths: RunPaths) -> Iterator[CheckResult]:
    """Yield whether the post-hoc results match the journal's hashes; a record may lack them."""
    what = paths.post_hoc.name
    try:
        known = read_post_hoc(paths) or {}
    except (OSError, RecordError) as error:
        yield CheckResult(what, ok=False, detail=str(error))
        return
    wrong = [name for name, result in known.items() if state.post_hoc.get(name) != post_hoc_sha256(result)]
    left_out = len(state.post_hoc.keys() - known.keys())
    named = ", ".join(name[:12] for name in wrong[:MOST_NAMED])
    if wrong:
        yield CheckResult(what, ok=False, detail=f"not as it was played: {named}")
    elif known or left_out:
        more = f"; {left_out} were left out of this record" if left_out else ""
        yield CheckResult(what, ok=True, detail=f"{len(known)} checkpoints as they were played{more}")


def _same(what: str, expected: str, compute: Callable[[], str], other: str) -> CheckResult:
    """Return whether the value is the expected one, or why it can't be read."""
    try:
        intact = compute() == expected
    except FileNotFoundError:
        intact = False
    except (OSError, RecordError) as error:
        return CheckResult(what, ok=False, detail=f"{other}: {error}")
    return CheckResult(what, intact, "" if intact else other)


def _checkpoints(state: RunState, paths: RunPaths) -> Iterator[CheckResult]:
    """Yield whether each checkpoint is what its name says; those without which the score stands may be left out."""
    names = dict.fromkeys(submission.charged.checkpoint for submission in state.submissions)
    scored = state.selected.checkpoint if state.selected else None
    left_out = [name for name in names if name != scored and not os.path.lexists(paths.checkpoint(name))]
    for name in [name for name in names if name not in left_out]:
        other = "its content is not what its name says"
        yield _same(f"checkpoint {name[:12]}", name, partial(_name_of, paths, name), other)
    if left_out:
        detail = f"{len(left_out)} of {len(names)} were left out of this record; nothing of them was checked"
        yield CheckResult(CHECKPOINTS, ok=True, detail=detail, verdict=UNCHECKED)


def _name_of(paths: RunPaths, checkpoint: str) -> str:
    return name_of(paths.checkpoint(checkpoint), paths.root)


def _feedback(state: RunState, paths: RunPaths) -> Iterator[CheckResult]:
    if not os.path.lexists(paths.feedback):  # most of a record's size, of which no score is made
        yield CheckResult(
            "feedback", ok=True, detail="all of it was left out of this record; nothing of it was checked"
        )
        return
    for submission in state.submissions:
        if not submission.published:
            continue
        directory = paths.published_feedback(submission.index)
        expected = submission.published.feedback_sha256
        compute = partial(feedback_sha256, directory, paths.root)
        same = _same(f"feedback {directory.name}", expected, compute, "its files are not those that were published")
        yield same if not same.ok else _summary(same.name, submission, directory / SUMMARY, paths.root)


def _summary(what: str, submission: SubmissionState, file: Path, root: Path) -> CheckResult:
    """Return whether the agent was shown the returns of the journal."""
    if submission.status is not SubmissionStatus.OK:
        return CheckResult(what, ok=True)
    try:
        shown = json.loads(regular_file.read(file, MAX_BYTES, root))["returns"]
    except (OSError, RecordError, ValueError, KeyError, TypeError, RecursionError) as error:
        return CheckResult(what, ok=False, detail=f"its summary can't be read: {type(error).__name__}: {error}")
    same = shown == json.loads(dumps(submission.returns))
    return CheckResult(what, same, "" if same else "the returns that it shows are not those of the journal")


def _document(record: RunRecord) -> CheckResult:
    """Return whether ``run.json`` is what the event log says; a missing one and a half-written one are alike."""
    try:
        text = regular_file.read(record.paths.document, MAX_BYTES)
        written = json.loads(text)
    except (FileNotFoundError, ValueError, RecursionError) as error:
        why = "missing" if isinstance(error, FileNotFoundError) else "not JSON"
        detail = f"{why}; it follows from the event log and is written again by: evopolicygym resume RUN"
        return CheckResult(DOCUMENT, ok=False, detail=detail, verdict=UNREAD)
    except (OSError, RecordError) as error:
        return CheckResult(DOCUMENT, ok=False, detail=f"can't be read: {error}")
    derived_text = record_text(record)
    if text == derived_text.encode():
        return CheckResult(DOCUMENT, ok=True)
    derived = json.loads(derived_text)
    if not isinstance(written, dict):
        return CheckResult(DOCUMENT, ok=False, detail="holds no document of a run")
    different = sorted(key for key in derived.keys() | written.keys() if derived.get(key) != written.get(key))
    detail = f"differs from the journal in {', '.join(different)}" if different else "is not spelled as it was written"
    return CheckResult(DOCUMENT, ok=False, detail=detail)
