"""One submission: what it changed against the one before, and its feedback as the agent saw it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evopolicygym.analysis.source import changed_paths
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Failure
from evopolicygym.core.run import Stage, SubmissionState
from evopolicygym.records.paths import EPISODES, episode_name, submission_name
from evopolicygym.records.post_hoc import PostHoc
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.edits import BoundedMatcher, DiffBudget
from evopolicygym.viewer.documents.reading import below, excerpt, film_named, post_hoc_known, read_bytes, shown, within
from evopolicygym.viewer.documents.run import bundle_of, episode_line

MOST_DIFFED = 256 * 1024
"""Bytes of a file that is compared line by line."""
MOST_LINES = 4000
"""Lines of a file that is compared line by line."""
MOST_ROWS = 3000
"""Lines of a file's diff that a document holds."""
MOST_FILES = 100
LONGEST_LINE = 500
MOST_PRINTED = 16 * 1024
"""Bytes shown of what a policy printed in an episode."""
MOST_OUTPUTS = 64
"""Episodes whose output a document holds."""
CONTEXT = 3
Row = tuple[str, int | None, int | None, str]
"""The sign (`` ``, ``+``, ``-``, ``@``), the old and the new line number, the text."""


def submission_bundle(record: RunRecord, index: int) -> dict[str, Any]:
    """Return a submission's change and feedback; raise ``UsageError`` where there is none of this number."""
    submissions = record.state.submissions
    if not 0 <= index < len(submissions):
        raise UsageError(f"There is no submission {index}; the run has {len(submissions)}.")
    one = submissions[index]
    before = submissions[index - 1].charged.checkpoint if index else None
    return {
        "index": index,
        "before": index - 1 if index else None,
        **_change(record, before, one.charged.checkpoint),
        "feedback": _feedback(record, one),
        **hidden_bundle(record, one),
    }


def _change(record: RunRecord, before: str | None, after: str) -> dict[str, Any]:
    new = bundle_of(record, after)
    old = bundle_of(record, before) if before else {}
    if new is None or old is None:
        return {"files": None, "more_files": 0}
    paths = changed_paths(old, new)
    files, budget = [], DiffBudget()
    for path in paths[:MOST_FILES]:
        difference = file_diff(_content(record, before, path), _content(record, after, path), budget)
        files.append({"path": shown(path), "kind": _kind(path in old, path in new), **difference})
    return {"files": files, "more_files": max(0, len(paths) - MOST_FILES), "unchanged": len(new.keys() - set(paths))}


def _kind(was: bool, there: bool) -> str:  # noqa: FBT001 - two sides
    return "changed" if was and there else "added" if there else "removed"


def _content(record: RunRecord, checkpoint: str | None, path: str) -> bytes | None:
    """Return a file of a checkpoint, one byte more than is compared; None where it isn't there."""
    if checkpoint is None:
        return None
    place = within(record.paths.root, record.paths.checkpoints.name, checkpoint, *path.split("/"))
    return read_bytes(place, MOST_DIFFED + 1)


def file_diff(before: bytes | None, after: bytes | None, budget: DiffBudget | None = None) -> dict[str, Any]:
    """Return how two contents of a file differ, line by line; why not, where they can't be compared so.

    What it takes is taken from ``budget``, which a document's files share.
    """
    budget = budget or DiffBudget()
    contents = [content or b"" for content in (before, after)]
    if any(len(content) > MOST_DIFFED for content in contents):
        return {"rows": [], "note": f"Larger than {MOST_DIFFED // 1024} KiB: not compared line by line.", "cut": 0}
    if any(b"\0" in content for content in contents):
        sizes = " to ".join(f"{len(content):,}" for content in contents)
        return {"rows": [], "note": f"Not text: from {sizes} bytes.", "cut": 0}
    budget.bytes -= sum(map(len, contents))
    if budget.bytes < 0:
        return {"rows": [], "note": "The files before it were large: not compared line by line.", "cut": 0}
    lines = [shown(content).split("\n") if content else [] for content in contents]
    if any(len(side) > MOST_LINES for side in lines):
        return {"rows": [], "note": f"More than {MOST_LINES:,} lines: not compared line by line.", "cut": 0}
    matcher = BoundedMatcher(lines[0], lines[1], budget)
    rows = list(_rows(matcher))
    plus, minus = (sum(row[0] == sign for row in rows) for sign in "+-")
    most = min(MOST_ROWS, budget.rows)
    kept = [(sign, old, new, text[:LONGEST_LINE]) for sign, old, new, text in rows[:most]]
    budget.rows -= len(kept)
    note = "" if matcher.is_whole else "Too different to be compared line by line: shown as removed and added."
    return {"rows": kept, "note": note, "cut": len(rows) - len(kept), "added": plus, "removed": minus}


def _rows(matcher: BoundedMatcher) -> Iterator[Row]:
    """Yield the lines of a unified diff."""
    before, after = matcher.a, matcher.b
    for place, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if place:
            yield "@", None, None, ""
        for what, i1, i2, j1, j2 in group:
            if what == "equal":
                yield from ((" ", i + 1, j1 + i - i1 + 1, before[i]) for i in range(i1, i2))
                continue
            yield from (("-", i + 1, None, before[i]) for i in range(i1, i2))
            yield from (("+", None, j + 1, after[j]) for j in range(j1, j2))


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
