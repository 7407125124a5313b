"""One submission: what it changed against the one before, and its feedback as the agent saw it."""

import json
from pathlib import Path
from typing import Any

from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.cases import Split
from evopolicygym.core.run import Stage, SubmissionState
from evopolicygym.records.paths import EPISODES, episode_name, submission_name
from evopolicygym.records.post_hoc import PostHoc
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import EpisodeRow, SubmissionRow
from evopolicygym.viewer.documents.change import MOST_DIFFED, NO_FILES, change, checkpoint_files, submission_files
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.reading import below, excerpt, film_named, post_hoc_known, read_bytes, shown
from evopolicygym.viewer.documents.run import EPISODE

MOST_PRINTED = 16 * 1024
"""Bytes shown of what a policy printed in an episode."""
MOST_OUTPUTS = 64
"""Episodes whose output a document holds."""


def submission_bundle(tables: RunTables, index: int) -> dict[str, Any]:
    """Return a submission's change and feedback; raise ``UsageError`` where there is none of this number."""
    record, submissions = tables.record, tables.submissions
    after = submission_files(record, index)
    before = checkpoint_files(record, submissions[index - 1].checkpoint) if index else NO_FILES
    return {
        "submission": index,
        **change(before, after),
        "feedback": _feedback(record, record.state.submissions[index]),
        **hidden_bundle(tables, submissions[index]),
    }


def _feedback(record: RunRecord, state: SubmissionState) -> dict[str, Any] | None:
    """Return what the agent could read of a submission; None before it is published."""
    root, directory = record.paths.root, record.paths.published_feedback(state.index)
    if below(root, directory) is None:
        return None
    episodes = []
    for index, case in enumerate(state.charged.env_instances[:MOST_OUTPUTS]):
        folder = directory / EPISODES / episode_name(state.first_global_episode + index)
        texts = {name: _text(root, folder / f"{name}.txt", MOST_PRINTED) for name in ("stdout", "stderr", "error")}
        episodes.append({"name": folder.name, "case": case, **texts})
    return {
        "directory": f"feedback/{submission_name(state.index)}",
        "summary": _json(root, directory / "summary.json"),
        "errors": _text(root, directory / "errors.txt"),
        "episodes": episodes,
        "more_episodes": max(0, len(state.episodes) - MOST_OUTPUTS),
    }


def _text(root: Path, path: Path, most: int = MOST_DIFFED) -> dict[str, object] | None:
    content = excerpt(below(root, path), most)
    return document(content) if content and content.text.strip() else None


def _json(root: Path, path: Path) -> Any:  # noqa: ANN401 - whatever stands there, shown as text
    content = read_bytes(below(root, path), 1 << 20)
    try:
        return _shown(json.loads(content)) if content else None
    except (ValueError, RecursionError):
        return None


def _shown(value: Any) -> Any:  # noqa: ANN401 - as above
    """Return JSON with every text in it safe to show, names included."""
    match value:
        case str():
            return shown(value)
        case dict():
            return {shown(name): _shown(item) for name, item in value.items()}
        case list():
            return [_shown(item) for item in value]
    return value


def hidden_bundle(tables: RunTables, submission: SubmissionRow) -> dict[str, Any]:
    """Return what the checkpoint played of each hidden split, what it was found to be worth afterwards, and films.

    Nothing is reported of hidden cases while the agent plays.
    """
    record, number, checkpoint = tables.record, submission.submission, submission.checkpoint
    rows: dict[str, list[dict[str, Any]]] = {}
    if record.state.stage is not Stage.OPEN:
        hidden = [row for row in tables.episodes if row.submission is None and row.checkpoint == checkpoint]
        for split in (Split.HELD_OUT, Split.VALIDATION):
            rows[split] = [_named(split, number, row) for row in hidden if row.split == split]
        if not rows[Split.HELD_OUT]:
            rows["post_hoc"] = _post_hoc(record, submission)
    names = [row["name"] for of_split in rows.values() for row in of_split]
    names += [f"{row.split}-{number}-{row.position}" for row in tables.episodes if row.submission == number]
    return {"hidden": rows, "films": [name for name in names if film_named(record, name)]}


def _named(split: Split, number: int, row: EpisodeRow) -> dict[str, Any]:
    return {"name": f"{split.value}-{number}-{row.position}", **document(row, *EPISODE)}


def _post_hoc(record: RunRecord, submission: SubmissionRow) -> list[dict[str, Any]]:
    """Return the held-out episodes of a checkpoint that were played after the score was known."""
    known = post_hoc_known(record.paths).get(submission.checkpoint, PostHoc((), {}))
    rows = []
    for case, value in enumerate(known.returns[: record.state.cases(Split.HELD_OUT)]):
        name, failure = f"{Split.HELD_OUT.value}-{submission.submission}-{case}", known.failures.get(case)
        row = {"name": name, "position": case, "case": case, "episode_return": value}
        rows.append(row | {"failure": failure.reason.value if failure else None})
    return rows
