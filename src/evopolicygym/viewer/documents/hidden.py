"""The hidden episodes of one submission's checkpoint, and which of all its episodes have a film."""

from typing import Any

from evopolicygym.core.cases import Split
from evopolicygym.core.rollout import Failure
from evopolicygym.core.run import Stage, SubmissionState
from evopolicygym.records.post_hoc import PostHoc
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.episode_names import film_named, post_hoc_known
from evopolicygym.viewer.documents.run import episode_line


def hidden_bundle(record: RunRecord, one: SubmissionState) -> dict[str, Any]:
    """Return what the checkpoint played of each hidden split, what it was found to be worth afterwards, and films.

    Nothing is reported of hidden cases while the agent plays.
    """
    state, checkpoint = record.state, one.charged.checkpoint
    rows: dict[str, list[dict[str, Any]]] = {}
    if state.stage is not Stage.OPEN:
        for split in (Split.HELD_OUT, Split.VALIDATION):
            played = enumerate(state.rollout(split, checkpoint).episodes)
            rows[split.value] = [_row(one, split, case, episode_line(line)) for case, line in played if line]
        if not rows[Split.HELD_OUT.value]:
            known = post_hoc_known(record.paths).get(checkpoint, PostHoc((), None))
            returns, failures = known.returns[: state.cases(Split.HELD_OUT)], known.failures or {}
            rows["post_hoc"] = [
                _row(one, Split.HELD_OUT, case, {"return": value, "failure": _reason(failures.get(case))})
                for case, value in enumerate(returns)
            ]
    names = [row["name"] for rows_of_split in rows.values() for row in rows_of_split]
    names += [f"{Split.TRAIN.value}-{one.index}-{place}" for place, line in enumerate(one.episodes) if line]
    return {"hidden": rows, "films": [name for name in names if film_named(record, name)]}


def _reason(failure: Failure | None) -> str | None:
    return failure.reason.value if failure else None


def _row(one: SubmissionState, split: Split, case: int, line: dict[str, Any] | None) -> dict[str, Any]:
    return {"name": f"{split.value}-{one.index}-{case}", "place": case, "case": case, **(line or {})}
