"""Runs of the paper's release: what is shown of them, what isn't known, and hostile ones."""

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.run import Stage
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records.checked import RecordState, open_run, open_runs
from evopolicygym.records.reader import read_run
from evopolicygym.records.release import is_release
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from release_run import BUDGET, HELD_OUT, MODEL, RUN, TASK, change, feedback_of, write_release
from shell import Shell
from whole_runs import config, played

SCORE = 25.0
NAN, HUGE = float("nan"), 10**400
UNKNOWN = (
    "seed", "split", "experiment", "experiment_id", "commitment", "versions", "isolation", "validation_mean",
    "validation_cases", "cost_usd", "task_fingerprint", "environment_id", "kind", "turns",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a run of the release below ``runs``."""
    return write_release(tmp_path / "runs")


def test_a_run_is_shown(shell: Shell, root: Path) -> None:
    """A run of the release is shown by its names and returns, without what it lacks."""
    shown = shell.json("show", root)
    assert (shown["run_id"], shown["agent"]["name"], shown["task"]["environment"]) == (RUN, MODEL, {"name": TASK})
    assert "release" in shown["protocol_version"]
    outcome = shown["outcome"]
    assert (outcome["score"], outcome["selected_submission"], outcome["status"]) == (SCORE, 1, "scored")
    assert tuple(outcome["held_out_returns"]) == HELD_OUT
    assert outcome["validation_mean"] is shown["selection_optimism"] is None
    assert [shown[name] for name in ("seed", "split", "experiment", "commitment", "fingerprint", "isolation")] == [
        None
    ] * 6
    assert [found["train_mean"] for found in shown["submissions"]] == [4.0, 8.0]
    assert [found["validation_mean"] for found in shown["submissions"]] == [None, None]
    assert shell("show", root).code == 0


def test_a_run_is_diagnosed(shell: Shell, root: Path) -> None:
    """A run of the release is diagnosed, from its policies' files without those that the release added."""
    (measured,) = shell.json("diagnose", root)["runs"]
    assert [edit["edit_kind"] for edit in measured["edits"]["submissions"]] == [None, "parametric"]
    (table,) = evopolicygym.diagnose(root, ["code"]).parts[0][:1]
    files = [column.key for column in table.columns].index("files")
    assert [row[files] for row in table.rows] == [1, 1]
    assert shell("diagnose", root).code == 0


def test_a_run_is_ranked_apart(shell: Shell, root: Path) -> None:
    """A run of the release is ranked by its returns: with none of ours, and beside no published score."""
    board = evopolicygym.leaderboard(root.parents[2])
    (row,) = board.document["entries"]
    assert MODEL in row["entry"]
    assert row["entry"] != MODEL
    assert row["tasks"][TASK]["mean"] == SCORE
    for name in ("paper", "references"):
        beside = evopolicygym.leaderboard(root.parents[2], tables=[name]).document
        assert not [row for row in beside["entries"] if MODEL in row["entry"]]
    assert shell("leaderboard", root.parents[2]).code == 0


def test_runs_of_ours_are_in_another_table(tmp_path: Path, root: Path) -> None:
    """A run of the release and one of ours are in two groups."""
    ours = played(config(tmp_path / "ours", agent="random")).paths.root
    board = evopolicygym.leaderboard([root, ours])
    agents = [sum(row["kind"] == "agent" for row in table["entries"]) for table in board.document["tables"]]
    assert agents == [1, 1]
    (title,) = (table["title"] for table in board.document["tables"] if "release" in table["title"])
    assert "validation cases" not in title
    mixed = evopolicygym.leaderboard([root, ours], allow_incomparable=True).document
    assert len([row for row in mixed["entries"] if row["kind"] == "agent"]) == 2


def test_a_run_is_exported(shell: Shell, root: Path, tmp_path: Path) -> None:
    """The tables of a run of the release have its returns, and nothing where something is unknown."""
    target = tmp_path / "tables"
    assert shell("export", "csv", root, "-o", target, "--tables", "runs,submissions,episodes,steps").code == 0
    tables = {file.stem: list(csv.DictReader(file.read_text().splitlines())) for file in target.glob("*.csv")}
    (row,) = tables["runs"]
    assert (row["run_id"], row["task"], row["agent_kind"], row["score"], row["spent"]) == (
        RUN,
        TASK,
        MODEL,
        "25.0",
        str(BUDGET),
    )
    assert {name: row[name] for name in UNKNOWN} == dict.fromkeys(UNKNOWN, "")
    held_out = [episode for episode in tables["episodes"] if episode["split"] == "held_out"]
    assert [float(episode["episode_return"]) for episode in held_out] == list(HELD_OUT)
    assert {(episode["length"], episode["terminated"], episode["seconds"]) for episode in held_out} == {("", "", "")}
    train = [episode for episode in tables["episodes"] if episode["split"] == "train"]
    assert [(episode["length"], episode["terminated"]) for episode in train][:2] == [("3", "true"), ("5", "true")]
    assert len(tables["steps"]) == 3 + 5 + 7 + 9
    assert json.loads(tables["steps"][1]["observation_json"]) == [0.5, 1]


def test_runs_are_loaded(root: Path) -> None:
    """``load_runs`` reads a run of the release; what is unknown is None."""
    (row,) = evopolicygym.load_runs(root.parents[2]).runs
    assert [row[name] for name in UNKNOWN] == [None] * len(UNKNOWN)
    assert (row.score, row.held_out_cases) == (SCORE, len(HELD_OUT))


def test_a_run_is_viewed(root: Path) -> None:
    """The viewer's documents of a run of the release hold its numbers, and say that it is unverified."""
    documents = Documents(RunIndex([root.parents[2]]))

    def document(name: str) -> Any:
        return json.loads(documents.document(name))

    (listed,) = document("runs")["runs"]
    assert (listed["score"], listed["seed"], listed["cost_usd"]) == (SCORE, None, None)
    run = document(f"run/{listed['id']}")
    assert document(f"task/{TASK}")["entries"][0]["runs"][0]["held_out_returns"] == list(HELD_OUT)
    assert [found["validation_mean"] for found in run["submission_rows"]] == [None, None]
    assert document(f"run/{listed['id']}/submission/1")["feedback"]["summary"]["status"] == "ok"
    assert document(f"run/{listed['id']}/episode/train-1-0")["series"]["steps"] == 7
    hidden = document(f"run/{listed['id']}/episode/held_out-1")
    assert (hidden["episode_return"], hidden["length"], hidden["seconds"]) == (HELD_OUT[1], None, None)
    for name in ("suite", f"task/{TASK}", f"run/{listed['id']}/edits", f"run/{listed['id']}/change/1/0"):
        assert document(name)


def test_a_record_is_unverified(shell: Shell, root: Path) -> None:
    """A record of the release is unverified, and ``verify`` fails with one finding."""
    run = open_run(root)
    assert (run.state, bool(run.unchecked)) == (RecordState.UNVERIFIED, True)
    (finding,) = evopolicygym.verify(root).findings
    assert not finding.ok
    assert shell("verify", root).code == 1


@pytest.mark.parametrize(
    "words", [["resume"], ["verify", "--replay"], ["film"], ["enter"], ["post-hoc"], ["bundle", "-o", "runs.tar.gz"]]
)
def test_a_run_is_not_played(shell: Shell, root: Path, words: list[str]) -> None:
    """Verbs that play a run, or vouch for it, refuse one of the release."""
    left = shell(*words, root)
    assert (left.code, left.out) == (UsageError.exit_code, "")
    assert "release" in left.err


def test_an_unfinished_run(shell: Shell, root: Path) -> None:
    """A run without an outcome, and one that ended with an error, are unfinished."""
    change(root / "run.json", "outcome", None)
    assert shell.json("show", root)["stage"] == "closed"
    assert len(open_runs([root]).runs) == 1
    change(root / "run.json", "outcome", {"status": "error", "error": {"type": "error", "message": "run failed"}})
    assert shell.json("show", root)["timing"]["stops"][0]["message"] == "run failed"
    assert shell("show", root).code == 0


@pytest.mark.parametrize(
    ("status", "read"),
    [("import_error", SubmissionStatus.IMPORT_ERROR), ("denied_import", SubmissionStatus.IMPORT_ERROR),
     ("oom", SubmissionStatus.OTHER)],
)  # fmt: skip
def test_a_submission_that_failed(root: Path, status: str, read: SubmissionStatus) -> None:
    """A submission of another status has been charged and can't be selected."""
    summary = feedback_of(root, 0) / "summary.json"
    for name, value in {
        "status": status,
        "returns": None,
        "episode_lengths": None,
        "first_global_episode": None,
    }.items():
        change(summary, name, value)
    state = read_run(root).state
    assert (state.submissions[0].status, state.spent, len(state.candidates)) == (read, BUDGET, 1)


def test_a_submission_that_was_rejected(root: Path) -> None:
    """A submission that the release rejected costs nothing."""
    summary = feedback_of(root, 1) / "summary.json"
    for name, value in {"status": "budget_invalid", "n_episodes": 0, "returns": None, "episode_lengths": None}.items():
        change(summary, name, value)
    change(root / "run.json", "outcome.best_submit_index", 0)
    state = read_run(root).state
    assert (state.spent, state.submissions[1].status) == (2, SubmissionStatus.OTHER)


def test_no_submission_was_ok(root: Path) -> None:
    """A run without a playable submission is finished and has no score."""
    for index in range(2):
        for name, value in {"status": "init_error", "returns": None, "episode_lengths": None}.items():
            change(feedback_of(root, index) / "summary.json", name, value)
    change(root / "run.json", "outcome", {"status": "no_ok_submit", "final_score": 0.0})
    state = read_run(root).state
    assert (state.stage, state.held_out()) == (Stage.FINISHED, None)


def test_missing_episodes(shell: Shell, root: Path) -> None:
    """An episode whose files are missing has a return and no end."""
    shutil.rmtree(feedback_of(root, 0) / "episodes")
    first = read_run(root).state.submissions[0].episodes[0]
    assert first is not None
    assert (first.episode_return, first.terminated, first.truncated) == (3.0, False, False)
    assert shell("show", root).code == 0


def test_a_failed_episode(root: Path) -> None:
    """An episode in which the policy failed is marked."""
    change(feedback_of(root, 0) / "summary.json", "errors", [1])
    assert read_run(root).state.submissions[0].failed == 1


def _replace_by_link(file: Path) -> None:
    target = file.rename(file.with_name("elsewhere"))
    file.symlink_to(target)


RUN_FILE, STATE_FILE = "run.json", ".evopolicygym/state.json"
FIRST, SECOND = (f"workspace/feedback/submit_00{index}/summary.json" for index in range(2))
TRAJECTORY = "workspace/feedback/submit_000/episodes/ep_000/trajectory.jsonl"
WRONG_FIELDS: dict[str, tuple[str, str, Any]] = {
    "nan": (RUN_FILE, "outcome.heldout_returns", [1.0, NAN]),
    "infinite": (RUN_FILE, "outcome.heldout_returns", [float("inf")]),
    "huge": (RUN_FILE, "outcome.heldout_returns", [HUGE]),
    "text for returns": (RUN_FILE, "outcome.heldout_returns", ["1.0"]),
    "no returns": (RUN_FILE, "outcome.heldout_returns", []),
    "true for a number": (RUN_FILE, "outcome.best_submit_index", True),
    "unknown submission": (RUN_FILE, "outcome.best_submit_index", 7),
    "unknown status": (RUN_FILE, "outcome.status", "won"),
    "other schema": (RUN_FILE, "schema_version", "0.2"),
    "list for a name": (RUN_FILE, "model", [MODEL]),
    "long name": (RUN_FILE, "model", "x" * 10_000),
    "time without offset": (RUN_FILE, "timing.start_time", "2026-11-25T23:32:09"),
    "huge budget": (STATE_FILE, "budget.limit", 10**18),
    "negative budget": (STATE_FILE, "budget.limit", -1),
    "nan in train": (SECOND, "returns", [1.0, NAN]),
    "huge length": (SECOND, "episode_lengths", [HUGE, 1]),
    "text for seconds": (SECOND, "wall_time_seconds", "1"),
}
WRONG_CONTENTS = {
    "not JSON": b"{",
    "deep": b"[" * 100_000,
    "array": b"[]",
    "not UTF-8": b'{"model": "\xff"}',
    "empty": b"",
}
LINKS = {"linked summary": FIRST, "linked feedback": "workspace/feedback", "linked trajectory": TRAJECTORY}


def _break(root: Path, name: str) -> None:
    """Make a record hostile."""
    if name in WRONG_FIELDS:
        file, field, value = WRONG_FIELDS[name]
        change(root / file, field, value)
    elif name in WRONG_CONTENTS:
        (root / RUN_FILE).write_bytes(WRONG_CONTENTS[name])
    elif name in LINKS:
        _replace_by_link(root / LINKS[name])
    else:
        (root / FIRST).unlink()
        if name == "pipe":
            os.mkfifo(root / FIRST)


@pytest.mark.parametrize("name", [*WRONG_FIELDS, *WRONG_CONTENTS, *LINKS, "missing summary", "pipe"])
def test_hostile_records_are_problems(shell: Shell, root: Path, name: str) -> None:
    """A record of the release that can't be read is an error that says why, and a problem beside other runs."""
    other = write_release(root.parents[2], "smoke-2")
    _break(root, name)
    with pytest.raises(RecordError):
        read_run(root)
    assert shell("show", root).code == RecordError.exit_code
    opened = open_runs([root.parents[2]])
    assert [run.root for run in opened.runs] == [other.resolve()]
    assert [problem.root for problem in opened.problems] == [root.resolve()]
    assert shell("leaderboard", root.parents[2]).code == 0
    (listed,) = json.loads(Documents(RunIndex([root.parents[2]])).document("runs"))["problems"]
    assert listed["reason"]


TAKEN: dict[str, list[Any]] = {
    "remaining_budget": [0, BUDGET],
    "wall_time_seconds": [0.0],
    "first_global_episode": [None, 2],
    "episode_lengths": [None, [0, 2**53 - 1]],
    "env_instances": [[0, 2**63 - 1]],
    "reward_components_per_episode": [None, {}, {"gain": [1.0, 2.0]}],
}
REFUSED: dict[str, list[Any]] = {
    "submit_index": [0, 2],
    "remaining_budget": [-1, BUDGET + 1],
    "wall_time_seconds": [-0.001],
    "first_global_episode": [1, 3],
    "episode_lengths": [[1], [1, 2, 3], [1, -1], [1, 2**53]],
    "env_instances": [[0], [0, 1, 2], [0, -1], [0, 2**63]],
    "n_episodes": [1, 3],
    "returns": [None, [1.0], [1.0, 2.0, 3.0]],
    "reward_components_per_episode": [{"gain": [1.0]}, {"gain": [1.0, 2.0], "cost": []}],
    "submit_started_at": ["now", "2026-11-25T23:32:09"],
    "submit_completed_at": [""],
}


def test_a_summary_agrees_with_itself_and_with_the_run(root: Path) -> None:
    """Numbers at their bounds are read; one beyond them, or lists of other lengths, are refused by their field."""
    file = root / SECOND
    before = file.read_text()
    for fields, is_taken in ((TAKEN, True), (REFUSED, False)):
        for name, values in fields.items():
            for value in values:
                file.write_text(before)
                change(file, name, value)
                if is_taken:
                    assert len(read_run(root).state.submissions) == 2, (name, value)
                else:
                    with pytest.raises(RecordError, match=r"submit_001/summary\.json"):
                        read_run(root)


@pytest.mark.parametrize("missing", ["run.json", ".evopolicygym/state.json"])
def test_what_is_no_run(root: Path, missing: str) -> None:
    """A directory without one of the two files, or with a link in place of one, isn't a run of the release."""
    _replace_by_link(root / missing)
    assert not is_release(root)
    assert not open_runs([root.parents[2]]).runs


def test_texts_are_printable(shell: Shell, root: Path) -> None:
    """What a terminal would act on is spelled out."""
    change(root / "run.json", "model", "\x1b]0;owned\x07")
    change(root / "run.json", "exp_id", "a\u202eb")
    left = shell("show", root)
    assert left.code == 0
    assert "\x07" not in left.out
    assert "\u202e" not in left.out
