"""One submission: what it changed against the one before, and its feedback as the agent saw it."""

import json
from pathlib import Path
from typing import Any

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Failure
from evopolicygym.core.run import Stage, SubmissionState
from evopolicygym.records.paths import EPISODES, episode_name, submission_name
from evopolicygym.records.post_hoc import PostHoc
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.change import MOST_DIFFED, NO_FILES, change, checkpoint_files
from evopolicygym.viewer.documents.reading import below, excerpt, film_named, post_hoc_known, read_bytes, shown
from evopolicygym.viewer.documents.run import episode_line

MOST_PRINTED = 16 * 1024
"""Bytes shown of what a policy printed in an episode."""
MOST_OUTPUTS = 64
"""Episodes whose output a document holds."""


def submission_bundle(record: RunRecord, index: int) -> dict[str, Any]:
    """Return a submission's change and feedback; raise ``UsageError`` where there is none of this number."""
    submissions = record.state.submissions
    if not 0 <= index < len(submissions):
        raise UsageError(f"There is no submission {index}; the run has {len(submissions)}.")
    one = submissions[index]
    before = checkpoint_files(record, submissions[index - 1].charged.checkpoint) if index else NO_FILES
    return {
        "index": index,
        "before": index - 1 if index else None,
        **change(before, checkpoint_files(record, one.charged.checkpoint)),
        "feedback": _feedback(record, one),
        **hidden_bundle(record, one),
    }


def _feedback(record: RunRecord, state: SubmissionState) -> dict[str, Any] | None:
    """Return what the agent could read of a submission; None before it is published."""
    root, directory = record.paths.root, record.paths.published_feedback(state.index)
    if below(root, directory) is None:
        return None
    episodes = []
    for place, played in enumerate(state.episodes[:MOST_OUTPUTS]):
        folder = directory / EPISODES / episode_name(state.first_global_episode + place)
        texts = {name: _text(root, folder / f"{name}.txt", MOST_PRINTED) for name in ("stdout", "stderr", "error")}
        episodes.append(
            {"name": folder.name, "case": state.charged.env_instances[place], **texts, "played": bool(played)}
        )
    return {
        "directory": f"feedback/{submission_name(state.index)}",
        "summary": _json(root, directory / "summary.json"),
        "errors": _text(root, directory / "errors.txt"),
        "episodes": episodes,
        "more_episodes": max(0, len(state.episodes) - MOST_OUTPUTS),
        "lines": [episode_line(episode) for episode in state.episodes],
    }


def _text(root: Path, path: Path, most: int = MOST_DIFFED) -> dict[str, object] | None:
    found = excerpt(below(root, path), most)
    return found.document() if found and found.text.strip() else None


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


def hidden_bundle(record: RunRecord, item: SubmissionState) -> dict[str, Any]:
    """Return what the checkpoint played of each hidden split, what it was found to be worth afterwards, and films.

    Nothing is reported of hidden cases while the agent plays.
    """
    state, checkpoint = record.state, item.charged.checkpoint
    rows: dict[str, list[dict[str, Any]]] = {}
    if state.stage is not Stage.OPEN:
        for split in (Split.HELD_OUT, Split.VALIDATION):
            played = enumerate(state.rollout(split, checkpoint).episodes)
            rows[split.value] = [_row(item, split, case, episode_line(line)) for case, line in played if line]
        if not rows[Split.HELD_OUT.value]:
            known = post_hoc_known(record.paths).get(checkpoint, PostHoc((), {}))
            returns, failures = known.returns[: state.cases(Split.HELD_OUT)], known.failures
            rows["post_hoc"] = [
                _row(item, Split.HELD_OUT, case, {"return": value, "failure": _reason(failures.get(case))})
                for case, value in enumerate(returns)
            ]
    names = [row["name"] for rows_of_split in rows.values() for row in rows_of_split]
    names += [f"{Split.TRAIN.value}-{item.index}-{place}" for place, line in enumerate(item.episodes) if line]
    return {"hidden": rows, "films": [name for name in names if film_named(record, name)]}


def _reason(failure: Failure | None) -> str | None:
    return failure.reason.value if failure else None


def _row(state: SubmissionState, split: Split, case: int, line: dict[str, Any] | None) -> dict[str, Any]:
    return {"name": f"{split.value}-{state.index}-{case}", "place": case, "case": case, **(line or {})}
