"""The viewer's token: who doesn't have it sees nothing, and who opens the printed address needs no more."""

import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from browsers import PATIENCE_MS, met
from diagnosed import known_run, recorded
from evopolicygym.viewer.site.access import redirect_page
from evopolicygym.viewer.site.serving import ServedViewer
from shell import Shell
from viewed import PATIENCE_S, asked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.made_up


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a run lies with a film."""
    runs = tmp_path_factory.mktemp("access") / "runs"
    recorded(runs / "known", known_run())
    films = runs / "known" / "films" / "train" / "submit_000"
    films.mkdir(parents=True)
    (films / "case_000.mp4").write_bytes(b"film")
    return runs


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[ServedViewer]:
    """Serve it; no test changes it."""
    with ServedViewer([runs]) as served:
        yield served


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer \xe9"},
        {"Authorization": "Basic TOKEN"},
        {"Authorization": "", "Cookie": "evopolicygym-PORT=wrong"},
        {"Authorization": "", "Cookie": "evopolicygym-1=TOKEN"},
        {"Authorization": "", "Cookie": "token=TOKEN"},
    ],
)
def test_without_the_token_there_is_nothing(viewer: ServedViewer, headers: dict[str, str]) -> None:
    """Pages, their files, documents and films, those that there are and others, are all refused alike."""
    known = asked(viewer, "/data/runs.json").document["runs"][0]["id"]
    port = viewer.address.rpartition(":")[2]
    sent = {name: text.replace("TOKEN", viewer.access.token).replace("PORT", port) for name, text in headers.items()}
    for path in ("/", "/static/main.js", "/data/runs.json", f"/film/{known}/train-0-0.mp4", "/nowhere"):
        assert asked(viewer, path).status in {200, 404}
        answer = asked(viewer, path, **sent)

        assert answer.status == 403
        assert b"evopolicygym view" in answer.body
        assert "set-cookie" not in answer.headers


def test_the_printed_address_gives_a_cookie_and_is_left(viewer: ServedViewer) -> None:
    """The token becomes a cookie that no script reads and no other site sends; the page's address has none."""
    first = asked(viewer, f"/?token={viewer.access.token}", Authorization="")
    cookie, *attributes = first.headers["set-cookie"].split("; ")

    assert (first.status, first.headers["location"], first.headers["referrer-policy"]) == (303, "/", "no-referrer")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} == set(attributes)
    assert cookie.startswith(f"evopolicygym-{viewer.address.rpartition(':')[2]}=")
    assert asked(viewer, "/data/runs.json", Authorization="", Cookie=f"other=1; {cookie}").status == 200


def test_another_page_leads_there_too(viewer: ServedViewer) -> None:
    """Whom a page leads to the printed address, such as a terminal's in a browser, a page of this site leads on."""
    link = {"Authorization": "", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    answer = asked(viewer, f"/?token={viewer.access.token}", **link)

    assert answer.status == 200
    assert "set-cookie" in answer.headers
    assert b'http-equiv="refresh" content="0; url=/"' in answer.body
    assert b'<link rel="icon" href="/static/icon.svg"' in answer.body
    assert viewer.access.token.encode() not in answer.body


@pytest.mark.parametrize("path", ["/?token=wrong", "/?token=", "/?token=%C3%A9", "/data/runs.json?token=TOKEN"])
def test_a_wrong_token_gives_nothing(viewer: ServedViewer, path: str) -> None:
    """A token that is wrong, or that stands in another address than the one that is printed, opens nothing."""
    answer = asked(viewer, path.replace("TOKEN", viewer.access.token), Authorization="")

    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_the_token_opens_nothing_to_others(viewer: ServedViewer, headers: dict[str, str]) -> None:
    """Another site's page gets nothing and no cookie, even with the token."""
    answer = asked(viewer, f"/?token={viewer.access.token}", **headers)

    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_each_viewer_has_a_token_of_its_own(viewer: ServedViewer, runs: Path) -> None:
    """The token of one viewer opens no other, and none can be guessed."""
    with ServedViewer([runs]) as other:
        answer = asked(other, "/data/runs.json", Authorization=f"Bearer {viewer.access.token}")

        assert answer.status == 403
        assert len(other.access.token) >= 32


def test_programs_send_the_token_in_a_header(viewer: ServedViewer) -> None:
    """A script needs no cookie: the token of the printed address, as a bearer's, is enough."""
    token = httpx2.URL(viewer.entrance).params["token"]
    answer = httpx2.get(
        f"{viewer.address}/data/runs.json", headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S
    )

    assert len(answer.json()["runs"]) == 1


def test_no_process_is_started_with_the_token(runs: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser is started with a private file that leads to the address: any user can read what it is started with."""
    opened: list[tuple[str, str, int]] = []

    def look(address: str) -> None:
        page = Path(address.removeprefix("file://"))
        opened.append((address, page.read_text(encoding="utf-8"), page.parent.stat().st_mode & 0o777))

    monkeypatch.setattr(webbrowser, "open", look)
    monkeypatch.setattr(ServedViewer, "wait", lambda _: None)
    out = shell.printed("view", runs)
    (entrance,) = (word for word in out.split() if word.startswith("http://"))
    ((address, page, mode),) = opened

    assert entrance.partition("?token=")[2] not in address
    assert f"url={entrance}" in page
    assert mode == 0o700
    assert not Path(address.removeprefix("file://")).exists()


@pytest.mark.nightly
def test_a_browser_comes_in_by_the_printed_address(chromium: "Browser", viewer: ServedViewer, tmp_path: Path) -> None:
    """By hand or by the file that ``view`` opens, a browser ends at the page, with no token in its address."""
    file = tmp_path / "open.html"
    file.write_text(redirect_page(viewer.entrance))
    for start, end in ((f"{viewer.entrance}#/task/toy", "/#/task/toy"), (file.as_uri(), "/")):
        with met(chromium, viewer.address) as found:
            found.page.goto(start)
            found.page.wait_for_selector("#main h1")

            assert found.page.url == viewer.address + end
            found.left = [url for url in found.left if url != file.as_uri()]


@pytest.mark.nightly
def test_a_browser_without_the_token_is_told_what_to_do(chromium: "Browser", viewer: ServedViewer) -> None:
    """Who opens the address without the token reads which address to open; nothing of the runs is there."""
    page = chromium.new_page()
    answer = page.goto(viewer.address, timeout=PATIENCE_MS)

    assert answer is not None
    assert answer.status == 403
    assert "evopolicygym view" in page.inner_text("main")
    assert "toy" not in page.content()
    page.close()
