"""Static pages as files: what they hold, what they leave out, and that old ones go. A browser opens them elsewhere."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from diagnosed import FROM_NOTHING, known_run, recorded
from evopolicygym.analysis.published.score_tables import shipped_names
from evopolicygym.analysis.run_tables import tables_of
from evopolicygym.cli.main import app
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.records.checked import look_at_run
from evopolicygym.records.paths import RunPaths
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.documents.suite import settings_bundle
from evopolicygym.viewer.site.document_cache import (
    MOST_COMPARED,
    CachedDocument,
    DocumentCache,
    Episodes,
    episode_names,
    pairs,
)
from evopolicygym.viewer.site.pages import FORM, Pages, clear_pages, write_pages, write_single_file
from viewed import documents_within, hostile_run, kept_documents, known, real_runs

pytestmark = pytest.mark.made_up


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return where two runs lie that are known by hand."""
    for name in ("one", "two"):
        recorded(tmp_path / "runs" / name, known_run())
    return tmp_path / "runs"


def test_pages_name_no_path_of_the_machine(runs: Path) -> None:
    """What is said of runs that differ, and of one that can't be read, names them from the directory of runs on."""
    record = RunPaths(runs / "two")
    document = json.loads(record.document.read_text())
    document["task"]["budget"]["episodes"] += 1
    record.document.write_text(json.dumps(document))
    record.journal.unlink()
    write_run = json.loads((runs / "one" / "run.json").read_text())
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text(json.dumps(write_run | {"stage": 1}))
    write_pages(runs.parent / "pages", Pages([runs]))
    found = json.dumps(kept_documents(runs.parent / "pages"))

    assert "two" in found
    assert str(runs) not in found


def typed(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def ids(runs: Path) -> list[str]:
    return list(RunIndex([runs]).directories())


def file_bytes(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.nightly
def test_the_documents_are_those_that_view_serves(tmp_path: Path) -> None:
    """All that a page of two real runs asks for is there, as it is served without this machine's paths."""
    real_runs(tmp_path / "runs")
    pages = Pages([tmp_path / "runs"], episodes=Episodes.ALL)
    write_pages(tmp_path / "pages", pages)
    write_single_file(tmp_path / "one.html", pages)
    library, found = Documents(RunIndex([tmp_path / "runs"])), kept_documents(tmp_path / "pages")
    made = {name: one for name, one in found.items() if not name.endswith("/contents")}

    assert documents_within(tmp_path / "one.html") == found
    assert str(tmp_path) not in json.dumps(found)
    local = library.index.without_roots
    assert made == {name: json.loads(local(library.document(name).decode())) for name in made}
    for run in ids(tmp_path / "runs"):
        own = {name for name in made if name.startswith((f"run/{run}", f"compare/{run}"))}
        contents = found[f"run/{run}/contents"]
        assert set(contents["names"]) == own
        assert contents["problems"] == {}
        assert all((tmp_path / "pages" / address).is_file() for address in contents["names"].values())
        episodes = sum(len(one["episode_rows"]) for one in made[f"run/{run}"]["submission_rows"])
        assert sum("/episode/train-" in name for name in own) == episodes
        assert sum("/episode/held_out-" in name for name in own) > 0
    assert sum(name.startswith("compare/") for name in made) == 1
    assert {"runs", "suite", "audit", "task/cartpole"} <= made.keys()


def test_of_which_episodes_the_steps_are_kept(tmp_path: Path) -> None:
    """The selected checkpoint's, held-out first; none; or all that were played."""
    tables = tables_of(look_at_run(known(tmp_path)[1].paths.root))
    hidden = [f"held_out-3-{case}" for case in range(3)] + [f"validation-3-{case}" for case in range(2)]
    own = [f"train-3-{position}" for position in range(3)]
    others = ["train-0-0", "train-0-1", "train-1-0", "train-1-1", "train-4-0", "train-4-1"]

    assert episode_names(tables, Episodes.SELECTED) == [*hidden, *own]
    assert episode_names(tables, Episodes.ALL) == [*hidden, *own, *others]
    assert episode_names(tables, Episodes.NONE) == []


def test_which_runs_are_compared() -> None:
    """Two of one task, once, in the order of their ids, and of many the best; unscored ones come last."""
    runs: list[dict[str, Any]] = [{"id": f"r{at:02d}", "task": "many", "score": float(at)} for at in range(20)]
    few = [{"id": "b", "task": "few", "score": None}, {"id": "a", "task": "few", "score": "NaN"}]
    found = pairs([*runs, *few, {"id": "c", "task": "one", "score": 1.0}])

    assert found.pop("a") == ["b"]
    assert sum(map(len, found.values())) == MOST_COMPARED * (MOST_COMPARED - 1) // 2
    assert {"r00", "r01", "r02", "r03", "b", "c"}.isdisjoint(found)
    assert found["r04"][-1] == "r19"


def test_what_there_is_no_room_for_is_left_out(runs: Path) -> None:
    """Each run has an equal share of the room; its own page and what compares it are always there, steps come last."""
    everything = DocumentCache(Documents(RunIndex([runs])), Episodes.ALL, 1 << 30, films=True)
    whole = [one.name for one in everything.of_runs(everything.common([]).runs) if isinstance(one, CachedDocument)]
    room = everything.tally.bytes * 3 // 4
    keeper = DocumentCache(Documents(RunIndex([runs])), Episodes.ALL, room, films=True)
    some = [one.name for one in keeper.of_runs(keeper.common([]).runs) if isinstance(one, CachedDocument)]
    missing = set(whole) - set(some)

    assert keeper.tally.left_out == len(missing) > 0
    assert everything.tally.left_out == 0
    assert {name.split("/")[2] for name in missing} <= {"episode", "transcript", "submission"}
    for run in ids(runs):
        assert {f"run/{run}", f"run/{run}/edits", f"run/{run}/audit", f"run/{run}/contents"} <= set(some)
        assert any(name.startswith(f"run/{run}/submission/") for name in some)


def test_a_leaderboard_that_can_t_be_made_is_told(runs: Path) -> None:
    """The leaderboards with the tables that were asked for and without any are kept, or why not; pages know both."""
    found, others = (
        DocumentCache(Documents(RunIndex([runs])), Episodes.NONE, 1 << 30, films=False).common(tables)
        for tables in (["anchors", "paper"], ["paper", "nothing"])
    )

    assert [
        {name for each in kept.documents if (name := each.name).startswith("suite")} for kept in (found, others)
    ] == [{"suite", "suite/anchors,paper"}, {"suite"}]
    assert set(others.problems) == {"suite/paper,nothing"}
    assert [table["name"] for table in settings_bundle(["paper"])["shipped"]] == shipped_names()
    assert [table["name"] for table in settings_bundle(["paper"], are_kept=True)["shipped"]] == ["paper"]
    with pytest.raises(UnknownName, match="papers"):
        settings_bundle(["papers"])


def test_what_can_t_be_made_is_said(runs: Path) -> None:
    """A run whose record is damaged has its reason where its page would be, and hinders no other."""
    (runs / "one" / "journal.jsonl").write_text("no journal\n")
    keeper = DocumentCache(Documents(RunIndex([runs])), Episodes.ALL, 1 << 30, films=False)
    found = [one for one in keeper.of_runs(keeper.common([]).runs) if isinstance(one, CachedDocument)]
    broken, whole = sorted(ids(runs))

    assert f"run/{broken}" not in {one.name for one in found}
    assert f"run/{broken}/contents" in {one.name for one in found}
    assert f"run/{whole}/submission/4" in {one.name for one in found}


def test_films_are_copied_and_links_are_not(runs: Path, tmp_path: Path) -> None:
    """A film lies beside the pages under the address that the page plays; a single file says that there is none."""
    films = runs / "one" / "films" / "train" / "submit_003"
    films.mkdir(parents=True)
    (films / "case_000.mp4").write_bytes(b"0123456789")
    (tmp_path / "secret").write_text("secret")
    (films / "case_001.mp4").symlink_to(tmp_path / "secret")
    write_pages(tmp_path / "pages", Pages([runs]))
    write_single_file(tmp_path / "one.html", Pages([runs]))
    (run,) = (one for one in ids(runs) if one.startswith("one"))
    name = f"run/{run}/episode/train-3-0"

    assert [path.read_bytes() for path in (tmp_path / "pages").rglob("*.mp4")] == [b"0123456789"]
    assert (tmp_path / "pages" / "film" / run / "train-3-0.mp4").is_file()
    assert kept_documents(tmp_path / "pages")[name]["film"]
    told = documents_within(tmp_path / "one.html")
    assert not told[name]["film"]
    assert kept_documents(tmp_path / "pages")[f"run/{run}/submission/3"]["films"] == ["train-3-0"]
    assert told[f"run/{run}/submission/3"]["films"] == []


def test_a_stranger_s_words_end_no_script(tmp_path: Path) -> None:
    """Nothing of a record stands in a file as it is: no markup of its own, no end of an element, no other script."""
    hostile_run(tmp_path / "runs" / "run")
    write_pages(tmp_path / "pages", Pages([tmp_path / "runs"]))
    write_single_file(tmp_path / "one.html", Pages([tmp_path / "runs"]))
    told = kept_documents(tmp_path / "pages")
    texts = [path.read_text() for path in (*tmp_path.rglob("*.js"), *tmp_path.rglob("*.html"))]
    single = (tmp_path / "one.html").read_text()

    assert any("</script>" in json.dumps(one) for one in told.values())
    assert not any("owned" in text or "onerror" in text for text in texts)
    assert single.count("<script") == single.count("</script>") == 3 + len(told)


def test_a_task_s_name_leads_nowhere_else(runs: Path, tmp_path: Path) -> None:
    """Tasks that are named as a path or as markup have no file elsewhere, and end nothing in the page."""
    names = {"one": "../../x", "two": 'x"><script>'}
    for run, name in names.items():
        shutil.rmtree(runs / run)
        recorded(runs / run, known_run(replace(FROM_NOTHING, name=name)))
    write_pages(tmp_path / "out" / "pages", Pages([runs]))
    page = (tmp_path / "out" / "pages" / "index.html").read_text()

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["pages"]
    assert {path.name for path in (tmp_path / "out" / "pages").iterdir()} == {"index.html", "data"}
    assert f"task/{names['two']}" in kept_documents(tmp_path / "out" / "pages")
    assert names["two"] not in page


def test_the_same_twice(runs: Path, tmp_path: Path) -> None:
    """The same runs give the same bytes; what old pages held and new ones don't is gone, and other files stay."""
    write_pages(tmp_path / "pages", Pages([runs]))
    first = file_bytes(tmp_path / "pages")
    write_pages(tmp_path / "pages", Pages([runs], episodes=Episodes.ALL))
    (tmp_path / "pages" / "data" / "mine.txt").write_text("mine")
    shutil.copytree(tmp_path / "pages", tmp_path / "cleared")
    write_pages(tmp_path / "pages", Pages([runs]))
    clear_pages(tmp_path / "cleared")

    assert file_bytes(tmp_path / "pages") == {**first, "data/mine.txt": b"mine"}
    assert file_bytes(tmp_path / "cleared") == {"data/mine.txt": b"mine"}
    assert json.loads(first["data/pages.json"]) == {"form": FORM}


def test_files_that_are_no_pages_are_not_removed(tmp_path: Path) -> None:
    """Without the mark of pages nothing is taken for one, and behind a link nothing is removed."""
    for name in ("unmarked", "elsewhere", "linked"):
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data" / "mine.js").write_text("mine")
    (tmp_path / "linked" / "data" / "pages.json").write_text("{}")
    (tmp_path / "linked" / "film").symlink_to(tmp_path / "elsewhere" / "data")
    (tmp_path / "elsewhere" / "data" / "mine.mp4").write_text("mine")
    for name in ("unmarked", "linked"):
        clear_pages(tmp_path / name)

    assert set(file_bytes(tmp_path)) == {"unmarked/data/mine.js", "elsewhere/data/mine.js", "elsewhere/data/mine.mp4"}


def test_a_report_has_pages(runs: Path, tmp_path: Path) -> None:
    """The report's index leads to the pages, they list its parts, and a report without them removes old ones."""
    report = tmp_path / "report"
    told = json.loads(
        typed(runs, "-o", report, "--no-figures", "--single-file", tmp_path / "one.html", "--json").stdout
    )
    index, page = (report / "README.md").read_text(), (report / "index.html").read_text()

    assert told["page"] == "index.html"
    assert told["pages"]["documents"] == told["single_file"]["documents"] == len(kept_documents(report))
    assert "[index.html](index.html)" in index
    assert '"tables/leaderboard.md"' in page
    assert '"tables/leaderboard.md"' not in (tmp_path / "one.html").read_text()
    assert json.loads(typed(runs, "-o", report, "--no-figures", "--no-pages", "--json").stdout)["page"] is None
    assert {path.name for path in report.iterdir()} == {"README.md", "report.json", "tables", "figures"}
    assert "index.html" not in (report / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--single-file"),
        (["--single-file", "."], "."),
        (["--single-file", "x.html", "--episodes", "some"], "selected"),
        (["--single-file", "x.html", "--most-mb", "0"], "--most-mb"),
        (["--single-file", "x.html", "--tables", "papers"], "papers"),
    ],
)
def test_what_can_t_be_written_is_told(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], named: str
) -> None:
    """The message names what was wrong, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    left = typed(runs, *arguments)

    assert isinstance(left.exception, UsageError)
    assert named in str(left.exception)
    assert not (tmp_path / "x.html").exists()
