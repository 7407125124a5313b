"""What the viewer's pages are made of: pure functions over records, with numbers worked out by hand."""

import json
import math
import os
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evopolicygym
from diagnosed import BUNDLES, closing, known_run, recorded
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import RunClosed, RunOpened
from evopolicygym.core.rollout import Recording
from evopolicygym.core.spaces import Box, to_schema
from evopolicygym.records import atomic
from evopolicygym.records.checked import CheckedRun, look_at_run, open_run
from evopolicygym.records.labels import RunLabels, write_labels
from evopolicygym.records.post_hoc import PostHoc, write_post_hoc
from evopolicygym.records.reader import SHARED_MARK
from evopolicygym.records.trajectories import EpisodeFiles, Step, Trajectory, write_episode
from evopolicygym.viewer.documents import change, step_columns
from evopolicygym.viewer.documents.change import file_diff
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.documents import Documents, NoSuchDocument
from evopolicygym.viewer.documents.experiment import experiment_bundle
from evopolicygym.viewer.documents.overview import RunIndex, ViewedRun, viewed_run
from evopolicygym.viewer.documents.reading import below, shown, within
from evopolicygym.viewer.documents.run import bundle_of
from evopolicygym.viewer.documents.transcript import page_of, transcript_index, transcript_page
from evopolicygym.viewer.site.pages import block, document_script, shell
from fakes import charged, opening, published, trained
from viewed import HOSTILE, documents, known, write_film

pytestmark = pytest.mark.made_up


def test_a_run_on_its_time_line(tmp_path: Path) -> None:
    """Each submission stands where its episodes end, with its edit, its worth, and whether it was a new best."""
    place, _ = known(tmp_path)
    run, edits = (documents(tmp_path)(f"run/{place.id}{part}") for part in ("", "/edits"))
    submissions = run["submission_rows"]

    assert [one["spent"] for one in submissions] == [2, 4, 5, 8, 10]
    assert [(one["parent"], one["edit_kind"]) for one in edits["edits"]] == [
        (-1, "structural"),
        (0, "parametric"),
        (1, "structural"),
        (1, "structural"),
        (0, "revert"),
    ]
    assert [one["is_new_best"] for one in submissions] == [True, False, False, True, False]
    assert [one["best"] for one in submissions] == [2.0, 2.0, 2.0, 6.0, 6.0]
    assert [one["same_as"] for one in submissions] == [None, None, None, None, 0]
    assert [one["train_mean"] for one in submissions] == [1.5, 0.0, None, 7.0, 3.0]
    assert (run["selected_submission"], run["score"]) == (3, 5.0)
    assert run["score_standard_error"] == pytest.approx(1 / math.sqrt(3))
    assert run["submission_rows"][1]["episode_rows"][1]["failure"] == "error"


def test_pages_have_the_columns_of_rows(tmp_path: Path) -> None:
    """What pages have of runs and submissions is what ``load_runs`` has, under the same names."""
    place, _ = known(tmp_path)
    rows, made = evopolicygym.load_runs(tmp_path), documents(tmp_path)
    page, listed = made(f"run/{place.id}"), made("runs")["runs"][0]
    row = document(rows.runs[0])

    assert {name: page[name] for name in row} == row
    assert {name: listed[name] for name in row if name in listed} == {name: row[name] for name in row if name in listed}
    assert listed.keys() - row.keys() == {"id", "directory", "group", "ended", "is_played"}


def test_a_run_on_its_tasks_page(tmp_path: Path) -> None:
    """A task's page has a run's returns; its curve has a point wherever the best grows, and its end."""
    known(tmp_path)
    (entry,) = documents(tmp_path)("task/toy")["entries"]
    (run,) = entry["runs"]

    assert run["curve"] == [[2, 2.0], [8, 6.0], [10, 6.0]]
    assert (run["score"], run["tokens"], run["cost_usd"]) == (5.0, 1000.0, 0.5)
    assert run["held_out_returns"] == [4.0, 5.0, 6.0]


def test_labels_are_listed_when_they_are_given(tmp_path: Path) -> None:
    """A label that is given while the viewer runs is in the list and on the run's page."""
    place, _ = known(tmp_path / "runs")
    made = Documents(RunIndex([tmp_path / "runs"]))
    before = json.loads(made.document("runs"))["runs"][0]
    write_labels(place.root, RunLabels(HOSTILE[:50], ("a", "b"), "seen"))
    after = [json.loads(made.document("runs"))["runs"][0], json.loads(made.document(f"run/{place.id}"))]

    assert (before["name"], before["tags"], before["note"]) == (None, None, None)
    assert [(run["name"], run["tags"], run["note"]) for run in after] == [(HOSTILE[:50], ["a", "b"], "seen")] * 2


def test_an_experiment_of_two_entries(tmp_path: Path) -> None:
    """Its cells have the leaderboard's means, what is missing against the most repeats, and options that differ."""
    place, _ = known(tmp_path)
    run = viewed_run(place, replace(look_at_run(place.root), experiment_name="tuning"))

    def like(name: str, **changes: Any) -> ViewedRun:
        return replace(run, directory=replace(place, id=name), row=replace(run.row, **changes))

    better = like("b", held_out_returns=(7.0, 8.0, 9.0), seed=1)
    runs = [run, better, like("c", agent="z", effort="high"), like("d", experiment_id="another")]
    groups = dict.fromkeys((place.id, "b", "c"), "")
    bundle = experiment_bundle(run.row.experiment_id or "", runs, groups)
    leaderboard_cell = score_table([run.row, better.row], ()).entries[0].cells[run.row.task]

    assert (bundle["experiment"], bundle["repeats"], bundle["budget"]) == ("tuning", 2, 3 * run.row.budget)
    assert [(cell["entry"], cell["mean"], cell["missing"], len(cell["runs"])) for cell in bundle["cells"]] == [
        (run.row.agent, 6.5, 0, 2),
        ("z", 5.0, 1, 1),
    ]
    assert bundle["cells"][0]["standard_error"] == leaderboard_cell.standard_error > 0.0
    assert bundle["options"]["differing"] == {"effort": [("none", 2), ("high", 1)]}
    assert bundle["options"]["shared"]["budget"] == str(run.row.budget)
    assert bundle["options"]["shared"]["limits"] == "none"
    with pytest.raises(UsageError):
        experiment_bundle("", [like("e", experiment_id=None)], groups)


@pytest.mark.parametrize("identity", ["e1", "a/b", "../..", "<img src=x>"])
def test_an_experiment_has_a_page_whatever_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    """Its document is had by its id as it is listed; a secret is shared only where the state directory says so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    opened, *events = known_run()
    assert isinstance(opened, RunOpened)
    recorded(tmp_path / "runs" / "named" / "agent" / "toy" / "a", [replace(opened, experiment=identity), *events])
    atomic.write_text(tmp_path / "runs" / "named" / "experiment.json", json.dumps({"experiment": identity}))
    made = Documents(RunIndex([tmp_path / "runs"]))
    (run,) = json.loads(made.document("runs"))["runs"]
    before = json.loads(made.document(f"experiment/{run['experiment_id']}"))
    (state_directory() / "e1").mkdir(parents=True)
    (state_directory() / "e1" / SHARED_MARK).touch()
    after = json.loads(Documents(made.index).document(f"experiment/{run['experiment_id']}"))

    assert (before["experiment"], len(before["runs"]), before["is_shared"]) == ("named", 1, False)
    assert json.loads(made.document(f"run/{run['id']}"))["experiment"] == "named"
    assert after["is_shared"] == (identity == "e1")


def test_each_run_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of runs and their leaderboard together read each run's document once."""
    for name in ("a", "b"):
        recorded(tmp_path / "runs" / name, known_run())
    reads = list[Path]()

    def read(root: Path) -> CheckedRun:
        reads.append(root)
        return open_run(root)

    monkeypatch.setattr("evopolicygym.viewer.documents.documents.open_run", read)
    made = Documents(RunIndex([tmp_path / "runs"]))
    listed = json.loads(made.document("runs"))["runs"]
    groups = json.loads(made.document("suite"))["groups"]

    assert (len(listed), len(groups)) == (2, 1)
    assert sorted(path.name for path in reads) == ["a", "b"]


def test_what_a_submission_changed(tmp_path: Path) -> None:
    """A diff has the lines that went and came with their numbers, and those around them, of changed files only."""
    told = documents(tmp_path)(f"run/{known(tmp_path)[0].id}/submission/1")

    assert [(file["path"], file["kind"]) for file in told["files"]] == [("policy.py", "changed")]
    assert told["files"][0]["rows"][3:5] == [["-", 4, None, "GAIN = 1"], ["+", None, 4, "GAIN = 2"]]
    assert (told["files"][0]["added"], told["files"][0]["removed"], told["unchanged"]) == (1, 1, 1)


def test_the_first_submission_is_all_new(tmp_path: Path) -> None:
    """The first submission's files all came."""
    told = documents(tmp_path)(f"run/{known(tmp_path)[0].id}/submission/0")

    assert [(file["path"], file["kind"], file["removed"]) for file in told["files"]] == [
        ("planner.py", "added", 0),
        ("policy.py", "added", 0),
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"a\0b", "Not text"), (b"x" * (change.MOST_DIFFED + 1), "Larger"), (b"\n" * 5000, "More than")],
)
def test_what_can_not_be_compared_by_line_is_said(content: bytes, why: str) -> None:
    """Files that are no text, or large, are not compared line by line, and the page says so."""
    told = file_diff(b"one\n", content)

    assert told["rows"] == []
    assert told["note"].startswith(why)


def test_a_text_of_a_stranger_is_text() -> None:
    """Colours of a terminal are taken off; what turns the direction of writing, and other controls, are spelled out."""
    assert shown(b"\x1b[1mbold\x1b[0m\tx\n\x07") == "bold\tx\n\\x07"
    assert shown(HOSTILE).endswith("</script>\\u202e")


def test_a_summary_is_text(tmp_path: Path) -> None:
    """Whatever stands in a summary, names included, is shown as text, and its numbers as they are."""
    place, record = known(tmp_path)
    summary = record.paths.published_feedback(0) / "summary.json"
    summary.parent.mkdir(parents=True, exist_ok=True)
    summary.write_text(json.dumps({"a\u202e": ["\x07", 1.5, None, {"__proto__": HOSTILE}]}))
    told = documents(tmp_path)(f"run/{place.id}/submission/0")["feedback"]["summary"]

    assert told == {"a\\u202e": ["\\x07", 1.5, None, {"__proto__": shown(HOSTILE)}]}


@pytest.mark.parametrize("name", ["</script><script>", '"><script>', "<!--<script>", "'&\u2028"])
def test_a_name_is_text_in_a_page(name: str) -> None:
    """A stranger's name adds no element to the page, wherever it stands: in its data, an attribute or a script."""
    (plain, _), (named, _) = (shell({"names": [text]}, single=True) for text in ("x", name))

    assert named.count("<") == plain.count("<")
    assert block(name, "packed").count("<") == block("x", "packed").count("<")
    assert block(name, "packed").count('"') == block("x", "packed").count('"')
    assert {"<", ">", "&", "\u2028"}.isdisjoint(document_script(name, "packed"))


def test_no_name_leads_out_of_a_run(tmp_path: Path) -> None:
    """A journal can't name a checkpoint elsewhere, and no link is followed, wherever in a path it stands."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "policy.py").write_text("SECRET = 1\n")
    place, record = known(tmp_path / "runs")
    (record.paths.checkpoints / "linked").symlink_to(secret)
    (record.paths.checkpoint("a") / "policy.py").unlink()
    (record.paths.checkpoint("a") / "policy.py").symlink_to(secret / "policy.py")
    record.paths.workspace.mkdir()
    record.paths.feedback.symlink_to(secret)

    assert bundle_of(record, "../../../secret") is None
    assert bundle_of(record, "linked") is None
    assert within(place.root, "checkpoints", "..", "..", "secret") is None
    assert below(place.root, record.paths.feedback / "policy.py") is None
    assert "SECRET" not in json.dumps([documents(place.root)(f"run/known/submission/{index}") for index in range(5)])


def test_a_run_that_is_a_link_is_not_shown(tmp_path: Path) -> None:
    """A directory whose journal is a link to another's is no run here."""
    _, record = known(tmp_path / "runs")
    (tmp_path / "runs" / "linked").mkdir()
    (tmp_path / "runs" / "linked" / "journal.jsonl").symlink_to(record.paths.journal)

    assert [place.root.name for place in RunIndex([tmp_path / "runs"]).directories().values()] == ["known"]


def test_long_episodes_are_thinned() -> None:
    """Of 5001 steps every third is kept, the last, and where it led to; the return by then counts all."""
    steps = [(Step(0, 1.0), {"x": float(at)}, {"": 0.0}) for at in range(5001)]
    told = step_columns.thinned(steps, {"x": 9.0}, ())

    assert (told["steps"], told["every"], told["t"][:3], told["t"][-2:]) == (5001, 3, [0, 3, 6], [5000, 5001])
    assert (told["returns"][1], told["returns"][-2:], told["rewards"][-1]) == (4.0, [5001.0, 5001.0], None)
    assert told["observations"][0]["values"][-1] == 9.0
    assert len(told["observations"][0]["values"]) == len(told["actions"][0]["values"]) == len(told["t"]) == 1669


def test_what_is_no_number_is_a_gap(tmp_path: Path) -> None:
    """Rewards, returns and observations that are NaN or infinite are null in a page's document, and not 0."""
    space = Box((2,), "float64", -math.inf, math.inf)
    event = trained(0, 0)
    event = replace(event, episode=replace(event.episode, length=3))
    record = recorded(
        tmp_path / "run", [opening(observation_schema=to_schema(space)), charged(0, 1), event, published(0)], {}
    )
    values = [0.0, math.nan, math.inf, 2.0]
    steps = Trajectory(
        np.array([[value, 1.0] for value in values]), np.array([1, 0, 1]), np.array(values[:3]),
        [{"gain": value} for value in values[:3]], frozenset(), terminated=True, truncated=False,
    )  # fmt: skip
    write_episode(
        record.paths.train_episode(0, 0), EpisodeFiles(steps, b"", b"", None, ("gain",)), Recording.TRAJECTORY
    )
    series = documents(tmp_path)("run/run/episode/train-0-0")["series"]

    assert series["rewards"] == [0.0, None, None, None]
    assert series["returns"] == [0.0, None, None, None]
    assert series["observations"][0]["values"] == [0.0, None, None, 2.0]


def test_values_of_any_space_become_columns() -> None:
    """Numbers of nested values are named by their way; texts are left out, and there are never too many columns."""
    assert list(step_columns.flat({"go": 1, "aim": [0.5, "Inf"], "word": "left"})) == [
        ("go", 1.0),
        ("aim[0]", 0.5),
        ("aim[1]", math.inf),
    ]
    assert len(list(step_columns.flat(list(range(1000))))) == step_columns.MOST_COLUMNS


@pytest.mark.parametrize(
    "name", ["train-9-0", "train-0-9", "train-0", "validation-x", "held_out--1", "x", "train-0-0-0"]
)
def test_an_episode_that_is_not_there(name: str, tmp_path: Path) -> None:
    """A name that is no episode's is refused with what would work or what there is."""
    with pytest.raises(UsageError):
        documents(tmp_path)(f"run/{known(tmp_path)[0].id}/episode/{name}")


def test_hidden_episodes_of_every_candidate(tmp_path: Path) -> None:
    """A submission that was not selected has its validation episodes, and the returns that post-hoc gave it."""
    place, record = known(tmp_path)
    write_post_hoc(record.paths, {"a": PostHoc((7.0, 8.0, 9.0), {})})
    hidden = documents(tmp_path)(f"run/{place.id}/submission/0")["hidden"]

    assert [row["episode_return"] for row in hidden["validation"]] == [1.0, 3.0]
    assert [row["episode_return"] for row in hidden["post_hoc"]] == [7.0, 8.0, 9.0]


def test_a_transcript_knows_its_submissions(tmp_path: Path) -> None:
    """Where the judge's client told of a submission, the page that it stands on is found, and marked in it."""
    _, record = known(tmp_path)
    record.paths.logs.mkdir()
    filler = "words\n" * 20_000
    record.paths.transcript.write_text(f"first\nsubmission 0 is taken\n{filler}submission 1 is taken\nlast\n")
    index = transcript_index(record.paths.transcript)
    told = transcript_page(record, index, page_of(index, 1, "") or 0)

    assert len(index.starts) == 3
    assert told["submissions"] == {0: 0, 1: 2}
    assert [entry["submission"] for entry in told["entries"] if entry["role"] == "submission"] == [1]
    assert told["entries"][-1]["text"] == "submission 1 is taken\nlast"


def test_a_transcript_with_times(tmp_path: Path) -> None:
    """Entries that tell their time place a submission; a tool's nested words come out of its JSON."""
    _, record = known(tmp_path)
    record.paths.logs.mkdir()
    lines = [
        {"time": "2025-01-01T00:00:00.000Z", "role": "user", "text": "x" * 60_000},
        {"type": "assistant", "timestamp": "2027-01-01T00:00:00Z", "message": {"content": [{"text": "I think."}]}},
    ]
    record.paths.transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    index = transcript_index(record.paths.transcript)
    (entry,) = transcript_page(record, index, 1)["entries"]

    assert [page_of(index, 7, time) for time in ("2026-01-01T00:00:00.000Z", "2028-01-01T00:00:00.000Z")] == [0, 1]
    assert (entry["role"], entry["text"], entry["time"]) == ("assistant", "I think.", "2027-01-01T00:00:00Z")


def test_two_runs_are_compared_case_by_case(tmp_path: Path) -> None:
    """On the same cases the differences are paired: (4, 5, 6) less (1, 3, 5) is 2 on average."""
    place, record = known(tmp_path)
    beginning = list(takewhile(lambda event: not isinstance(event, RunClosed), record.events))
    recorded(
        tmp_path / "other", closing(beginning, {"a": [1.0, 3.0], "b": [0.0, 2.0], "d": [5.0, 7.0]}, [1.0, 3.0, 5.0])
    )
    library = Documents(RunIndex([tmp_path]))
    ids = {one.root.name: one.id for one in library.index.directories().values()}
    told = json.loads(library.document(f"compare/{ids['known']}/{ids['other']}"))

    assert ids["known"] == place.id
    assert (told["difference"]["mean"], told["difference"]["paired"]) == (2.0, True)
    assert told["pairs"] == [[4.0, 1.0], [5.0, 3.0], [6.0, 5.0]]


def test_a_run_that_no_process_plays(tmp_path: Path) -> None:
    """Whether a run is being played is known by its lock; a page is made anew when it is taken or left."""
    place, record = known(tmp_path)
    record.paths.journal.write_bytes(b"".join(record.paths.journal.read_bytes().splitlines(keepends=True)[:7]))
    record.paths.document.unlink()
    library, name = Documents(RunIndex([tmp_path])), f"run/{place.id}"
    killed = json.loads(library.document(name))["activity"]
    lock = atomic.lock_file(record.paths.lock, "known")
    played = json.loads(library.document(name))["activity"]
    os.close(lock)

    assert (killed["is_played"], played["is_played"]) == (False, True)
    assert killed["resume"] == f"evopolicygym resume {record.paths.root}"
    assert killed["last_activity"]


def test_a_submission_against_any_other(tmp_path: Path) -> None:
    """A submission is compared with the starter, with any other, and with one of another run; its source is whole."""
    for run in ("first", "second"):
        recorded(tmp_path / run, known_run())
    library = Documents(RunIndex([tmp_path]))
    first, second = library.index.directories()

    def paths(base: str) -> list[tuple[str, str]]:
        files = json.loads(library.document(f"run/{first}/change/1/{base}"))["files"]
        return [(file["path"], file["kind"]) for file in files]

    assert paths("starter") == [("planner.py", "added"), ("policy.py", "changed")]
    assert paths("0") == [("policy.py", "changed")]
    assert paths(f"{second}/1") == []
    assert paths(f"{second}/3") == [("planner.py", "added"), ("policy.py", "changed"), ("weights.json", "removed")]
    source = json.loads(library.document(f"run/{first}/source/1"))["files"]
    assert [(file["path"], file["text"]) for file in source] == sorted(BUNDLES["b"].items())
    for base in ("9", "nowhere/0", "..", "0/0/0"):
        with pytest.raises((UsageError, NoSuchDocument)):
            library.document(f"run/{first}/change/1/{base}")


def test_the_suite_and_its_tasks(tmp_path: Path) -> None:
    """The leaderboard names runs by id and no path of the machine; the task's page has its runs by entry."""
    place, _ = known(tmp_path)
    library = Documents(RunIndex([tmp_path]))
    suite, task = library.document("suite"), json.loads(library.document("task/toy"))

    (group,) = json.loads(suite)["groups"]
    assert group["entries"][0]["tasks"]["toy"]["runs"] == group["runs"] == [place.id]
    assert str(tmp_path).encode() not in suite
    assert [run["id"] for entry in task["entries"] for run in entry["runs"]] == [place.id]


def test_a_changed_record_is_read_anew(tmp_path: Path) -> None:
    """A document goes by another tag as soon as the journal or the transcript has grown, and is made anew."""
    place, record = known(tmp_path)
    library = Documents(RunIndex([tmp_path]))
    name = f"run/{place.id}/transcript/0"
    before = library.tag(name), library.document(name)
    record.paths.logs.mkdir()
    record.paths.transcript.write_text("a word\n")

    assert library.tag(name) != before[0]
    assert json.loads(library.document(name))["entries"][0]["text"] == "a word"


def test_a_record_that_is_broken_is_told_of(tmp_path: Path) -> None:
    """A run that can't be read is listed with its reason, and the others are shown."""
    known(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"stage": "finished"')
    told = json.loads(Documents(RunIndex([tmp_path])).document("runs"))

    assert (len(told["runs"]), len(told["problems"])) == (1, 1)
    assert "journal.jsonl" in told["problems"][0]["reason"]


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many documents are asked for, no more than so many bytes of them are kept."""
    place, _ = known(tmp_path)
    monkeypatch.setattr("evopolicygym.viewer.documents.documents.MOST_BYTES", 5000)
    library = Documents(RunIndex([tmp_path]))
    for number in range(5):
        library.document(f"run/{place.id}/submission/{number}")

    assert sum(len(content) for _, content in library._documents.values()) == library._held <= 5000


def test_live_records_are_read(tmp_path: Path) -> None:
    """A run that goes on is shown from its journal, however old its run.json is."""
    place, record = known(tmp_path)
    lines = record.paths.journal.read_bytes().splitlines(keepends=True)
    record.paths.journal.write_bytes(b"".join(lines[:7]))
    record.paths.document.unlink()
    page, listed = (documents(tmp_path)(name) for name in (f"run/{place.id}", "runs"))

    assert (page["stage"], page["score"], len(page["submission_rows"])) == ("open", None, 2)
    assert listed["runs"][0]["stage"] == "open"
    assert replace(place, shown="x").stamp() == place.stamp()


def test_a_run_that_goes_on_is_made_anew(tmp_path: Path) -> None:
    """A run's document goes by another tag, and is made anew, as soon as its journal has grown."""
    place, record = known(tmp_path)
    lines = record.paths.journal.read_bytes().splitlines(keepends=True)
    record.paths.journal.write_bytes(b"".join(lines[:7]))
    record.paths.document.unlink()
    library, name = Documents(RunIndex([tmp_path])), f"run/{place.id}"
    before, stage = library.tag(name), json.loads(library.document(name))["stage"]
    record.paths.journal.write_bytes(b"".join(lines))

    assert library.tag(name) != before
    assert (stage, json.loads(library.document(name))["stage"]) == ("open", "finished")


def test_a_run_that_is_new_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that begins while the viewer is open appears, and the list's tag changes."""
    monkeypatch.setattr("evopolicygym.viewer.documents.overview.SCAN_S", -1.0)
    recorded(tmp_path / "first", known_run())
    library = Documents(RunIndex([tmp_path]))
    before, listed = library.tag("runs"), len(json.loads(library.document("runs"))["runs"])
    recorded(tmp_path / "second", known_run())

    assert library.tag("runs") != before
    assert (listed, len(json.loads(library.document("runs"))["runs"])) == (1, 2)


def test_scans_take_a_tenth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of runs that takes 3 seconds to find is kept for 30, a quick one for a second."""
    now, scans = [0.0], list[float]()

    def find(top: Path) -> list[Path]:
        scans.append(now[0])
        now[0] += 3.0 if len(scans) < 3 else 0.0
        return [top]

    monkeypatch.setattr("evopolicygym.viewer.documents.overview.scan", find)
    monkeypatch.setattr("evopolicygym.viewer.documents.overview.time.monotonic", lambda: now[0])
    index = RunIndex([tmp_path])
    for later in (0.0, 29.0, 2.0, 31.0, 0.5, 1.0):
        now[0] += later
        index.directories()

    assert scans == [0.0, 34.0, 68.0, 69.5]


def test_films_of_one_case_of_two_experiments(tmp_path: Path) -> None:
    """Cases of two experiments bear the same number and are two cases, each with the films of its own runs."""
    opened, *events = known_run()
    assert isinstance(opened, RunOpened)
    for commitment in ("a", "b"):
        for seed in (0, 1):
            told = replace(opened, run_id=f"{commitment}{seed}", seed=seed, commitment=commitment)
            write_film(recorded(tmp_path / told.run_id, [told, *events]).paths)
    films = json.loads(Documents(RunIndex([tmp_path])).document(f"task/{opened.task.environment.name}"))["films"]

    assert [(one["split"], one["case"]) for one in films] == [("held_out", 0)] * 2
    assert [[film["seed"] for film in one["films"]] for one in films] == [[0, 1]] * 2
    assert [len({film["run"].split("-")[0][0] for film in one["films"]}) for one in films] == [1, 1]
