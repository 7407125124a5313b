"""The viewer's site over real HTTP: read-only, for this machine's own pages, and nothing but runs."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from diagnosed import known_run, recorded
from evopolicygym.analysis.published.score_tables import shipped_names
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.viewer.site.serving import ServedViewer
from evopolicygym.viewer.site.static_files import static_files
from viewed import PATIENCE_S, asked

pytestmark = pytest.mark.made_up


def write_runs(below: Path) -> Path:
    """Write a run that is known by hand, and a file beside the directory of runs."""
    recorded(below / "runs" / "known", known_run())
    (below / "secret.json").write_text('{"secret": 1}')
    return below / "runs"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedViewer]:
    """Serve a run that no test changes."""
    with ServedViewer([write_runs(tmp_path_factory.mktemp("site"))]) as served:
        yield served


@pytest.fixture
def own_viewer(tmp_path: Path) -> Iterator[ServedViewer]:
    """Serve a run that the test may change, below its own directory."""
    with ServedViewer([write_runs(tmp_path)]) as served:
        yield served


def run_id(viewer: ServedViewer) -> str:
    return str(asked(viewer, "/data/runs.json").document["runs"][0]["id"])


def test_documents_are_served_with_a_tag(viewer: ServedViewer) -> None:
    """A document comes with an ETag; asked again by it, nothing comes but that it is the same; HEAD has no body."""
    path = f"/data/run/{run_id(viewer)}.json"
    first = asked(viewer, path)
    again, head = asked(viewer, path, If_None_Match=first.headers["etag"]), asked(viewer, path, "HEAD")

    assert (first.status, again.status, head.status) == (200, 304, 200)
    assert first.document["score"] == 5.0
    assert (again.body, head.body) == (b"", b"")
    assert head.headers["etag"] == first.headers["etag"]


def test_shipped_tables_can_stand_beside(tmp_path: Path) -> None:
    """Pages are told which tables are shipped and which to begin with; a leaderboard is served with any of them."""
    recorded(tmp_path / "runs" / "known", known_run())
    with ServedViewer([tmp_path / "runs"], shipped=["paper"]) as viewer:
        settings = asked(viewer, "/data/settings.json").document
        alone, beside = (asked(viewer, f"/data/suite{name}.json").document["groups"] for name in ("", "/paper"))

        assert settings["tables"] == ["paper"]
        assert [one["name"] for one in settings["shipped"]] == shipped_names()
        assert asked(viewer, "/data/suite/papers.json").status == 404
        assert "arXiv" not in json.dumps(alone)
        assert "arXiv" in json.dumps(beside)
    with pytest.raises(UnknownName, match="papers"):
        ServedViewer([tmp_path / "runs"], shipped=["papers"])


def test_every_answer_forbids_what_pages_do_not_need(viewer: ServedViewer) -> None:
    """Whatever is answered carries the policy: nothing from elsewhere, no script but ours, no CORS."""
    for path in ("/", "/static/main.js", "/data/runs.json", "/data/nothing.json", "/nowhere"):
        headers = asked(viewer, path).headers
        policy = headers["content-security-policy"]

        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_requests_of_other_sites_are_refused(viewer: ServedViewer, headers: dict[str, str]) -> None:
    """A name that resolves here, another site's page, or another server of this machine gets nothing."""
    answer = asked(viewer, "/data/runs.json", **headers)

    assert answer.status == 403
    assert "runs" not in answer.document


def test_a_link_from_elsewhere_opens_the_pages(viewer: ServedViewer) -> None:
    """Somebody who follows a link gets the page, which holds no data; nothing else may be embedded."""
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}

    assert asked(viewer, "/", **link).status == 200
    assert asked(viewer, "/data/runs.json", **link).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_written(viewer: ServedViewer, method: str) -> None:
    """Only GET and HEAD are answered."""
    assert asked(viewer, "/data/runs.json", method).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/data/../secret.json",
        "/data/%2e%2e/secret.json",
        "/data/run/../../secret.json",
        "/data/run/known/..%2f..%2fsecret.json",
        "/static/../site.py",
        "/static/..%2fsite.py",
        "/static/%2e%2e%2fsite.py",
        "/film/known/..%2f..%2fsecret.json",
        "/data/run/ID/episode/..%2f..%2fjournal.json",
        "/data/run/ID/submission/-1.json",
        "/data/run/ID/transcript/x.json",
        "/film/ID/..%2fjournal.jsonl",
        "/film/ID/journal.jsonl",
    ],
)
def test_no_path_leads_out(viewer: ServedViewer, path: str) -> None:
    """Dots and slashes, however written, name no document and no file."""
    answer = asked(viewer, path.replace("ID", run_id(viewer)))

    assert answer.status in {400, 404}
    assert b"secret" not in answer.body.replace(b"secret.json", b"").replace(b"secret'", b"")


def test_films_are_served_and_links_are_not(own_viewer: ServedViewer, tmp_path: Path) -> None:
    """A film beside a record is played, in pieces where that is asked; a link in its place leads nowhere."""
    base, films = f"/film/{run_id(own_viewer)}", tmp_path / "runs" / "known" / "films"
    (films / "train" / "submit_000").mkdir(parents=True)
    (films / "train" / "submit_000" / "case_000.mp4").write_bytes(b"0123456789")
    (films / "train" / "submit_000" / "case_001.mp4").symlink_to(tmp_path / "secret.json")

    assert asked(own_viewer, f"{base}/train-0-0.mp4").body == b"0123456789"
    assert asked(own_viewer, f"{base}/train-0-0.mp4", Range="bytes=2-4").body == b"234"
    assert asked(own_viewer, f"{base}/train-0-1.mp4").status == 404
    assert asked(own_viewer, f"/data/run/{run_id(own_viewer)}/episode/train-0-0.json").document["film"]


def test_what_is_wrong_is_said(own_viewer: ServedViewer, tmp_path: Path) -> None:
    """A run that is gone and a record that is broken are named in the answer."""
    own = run_id(own_viewer)
    (tmp_path / "runs" / "known" / "journal.jsonl").write_text("no journal\n")
    gone, broken = (asked(own_viewer, f"/data/run/{run}.json") for run in ("nope", own))

    assert (gone.status, broken.status) == (404, 422)
    assert "nope" in gone.document["error"]
    assert "journal.jsonl" in broken.document["error"]


def test_pages_hold_no_script_or_style_of_their_own(viewer: ServedViewer) -> None:
    """All that runs or paints is a file of ours; no file names another address, or parses a text as markup."""
    page = asked(viewer, "/").body.decode()

    assert "style=" not in page
    assert page.count("<script") == page.count('<script type="module" src="static/')
    for name, content in static_files().items():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, name
        assert not any(word in text for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write")), (
            name
        )


def test_a_port_that_is_taken(viewer: ServedViewer, tmp_path: Path) -> None:
    """A second viewer on the same port says what would work."""
    with pytest.raises(UsageError, match="--port"):
        ServedViewer([tmp_path], int(viewer.address.rpartition(":")[2]))


def test_no_directory(tmp_path: Path) -> None:
    """A place that isn't there is refused before anything is served."""
    with pytest.raises(UsageError, match="no directory"):
        ServedViewer([tmp_path / "nowhere"])


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_the_program_ends_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    """``evopolicygym view`` prints its address, answers there, and ends without a complaint when interrupted."""
    recorded(tmp_path / "runs" / "known", known_run())
    words = [sys.executable, "-m", "evopolicygym", "view", "--no-open", str(tmp_path / "runs")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        (entrance,) = (word for word in process.stdout.readline().split() if word.startswith("http://"))
        with httpx2.Client(follow_redirects=True, timeout=PATIENCE_S) as client:
            client.get(entrance)
            status = client.get(httpx2.URL(entrance).join("/data/runs.json")).status_code
        process.send_signal(number)
        _, complaints = process.communicate()
    finally:
        process.kill()

    assert (status, process.returncode, complaints) == (200, 0, "")
