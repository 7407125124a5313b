"""Static pages in a real browser, opened from a disk: a directory and a single file show what the served site shows."""

import threading
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

from browsers import met
from evopolicygym.cli.main import app
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.site.pages import Pages, write_pages, write_single_file
from viewed import first_held_out, hostile_run, real_runs, write_film

pytestmark = [pytest.mark.nightly, pytest.mark.made_up]

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FORMS = ("directory", "file")


@dataclass(frozen=True, slots=True)
class Written:
    """Pages that were written, and the runs that they show."""

    addresses: dict[str, str]
    """By form."""
    evolver: str
    random: str
    episode: str
    """The evolver's first held-out one."""


@pytest.fixture(scope="module")
def written(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write the pages of two real runs on cartpole in both forms, as a user does."""
    assert chromium.is_connected()
    place = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        evolver, random = real_runs(place / "runs")
    write_film(evolver)
    file = place / "single" / "runs.html"
    line = ["report", place / "runs", "-o", place / "report", "--format", "svg", "--single-file", file, "--json"]
    line += ["--tables", "paper"]
    left = CliRunner().invoke(app, list(map(str, line)))
    assert left.exit_code == 0, left.output
    ids = {one.root: one.id for one in RunIndex([place / "runs"]).directories().values()}
    addresses = {"directory": (place / "report" / "index.html").as_uri(), "file": file.as_uri()}
    first, second = ids[evolver.root.resolve()], ids[random.root.resolve()]
    return Written(addresses, first, second, first_held_out(place / "report", first))


@pytest.mark.parametrize("form", FORMS)
def test_the_suite_from_a_disk(chromium: "Browser", written: Written, form: str) -> None:
    """The leaderboard is sorted and filtered, its shipped table switched off and on; the address tells all of it."""
    with met(chromium, written.addresses[form]) as found:
        page = found.page
        found.open("#/", "text=GPT-5.5")
        page.uncheck("label:has-text('paper') input")
        found.until("document.querySelectorAll('.board tbody tr').length === 3")
        assert "tables=" in page.url
        page.click(".board th button:text-is('rank score')")
        down = page.locator(".board tbody td:nth-child(4)").all_inner_texts()
        page.click(".board th button:text-is('rank score')")
        up = page.locator(".board tbody td:nth-child(4)").all_inner_texts()
        page.check("label:has-text('paper') input")
        page.wait_for_selector("text=GPT-5.5")
        page.keyboard.press("/")
        page.keyboard.type("opus")

        assert len(down) == 3
        assert up == down[::-1]
        assert page.locator(".board tbody tr").count() == 1
        assert [part in page.url for part in ("filter=opus", "sort=rank", "with=")] == [True, True, False]
        found.open(page.url.partition("#")[1] + page.url.partition("#")[2], ".board table")
        page.reload()
        page.wait_for_selector(".board table")
        assert page.is_checked("label:has-text('paper') input")
        assert page.locator(".board tbody tr").count() == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_run_from_a_disk(chromium: "Browser", written: Written, form: str) -> None:
    """A run's changes, feedback, transcript and episodes open by keys, and each has an address."""
    with met(chromium, written.addresses[form]) as found:
        page = found.page
        found.open(f"#/run/{written.evolver}/0/change", ".code .row")
        page.keyboard.press("j")
        page.wait_for_selector(".row.minus")

        assert "return int(-obs[2] > 0)" in page.inner_text(".row.minus")
        page.keyboard.press("2")
        page.wait_for_selector(".printed pre")
        assert "env_meta" in page.inner_text(".printed pre >> nth=0")
        assert f"#/run/{written.evolver}/1/feedback" in page.url
        page.keyboard.press("3")
        page.wait_for_selector(".tabbody .nothing, .tabbody .said")
        found.open("#/task/cartpole", ".chart svg .curve")
        page.click("td a >> nth=0")
        page.wait_for_selector(".submissions li")


@pytest.mark.parametrize("form", FORMS)
def test_an_episode_from_a_disk(chromium: "Browser", written: Written, form: str) -> None:
    """The selected checkpoint's episodes are scrubbed; a step of another one is told to be left out."""
    with met(chromium, written.addresses[form]) as found:
        page = found.page
        found.open(f"#/episode/{written.evolver}/{written.episode}", "canvas")
        page.keyboard.press("Shift+ArrowRight")
        assert page.inner_text(".where").startswith("step 10 of")
        page.fill(".scrub input", "3")
        assert page.inner_text(".where").startswith("step 3 of")
        page.click("a[aria-label='Episode after']")
        page.wait_for_selector(f"h1:text-is('Episode {written.episode[:-1]}1')")
        found.open(f"#/episode/{written.evolver}/train-0-0", ".trouble")
        assert "--episodes all" in page.inner_text(".trouble")
        found.open("#/run/nobody", ".trouble")
        assert page.inner_text(".trouble")


@pytest.mark.parametrize("form", FORMS)
def test_a_comparison_from_a_disk(chromium: "Browser", written: Written, form: str) -> None:
    """Two runs are ticked and compared, on a phone, and nothing is wider than it."""
    with met(chromium, written.addresses[form], width=390, scheme="dark") as found:
        page = found.page
        found.open("#/", "input[type=checkbox][aria-label^=Choose]")
        for box in page.locator("input[aria-label^=Choose]").all():
            box.check()
        page.click(".compare a")
        page.wait_for_selector(".verdict")
        assert {written.evolver, written.random} <= set(page.url.split("/"))
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_a_film_from_a_disk(chromium: "Browser", written: Written) -> None:
    """A film that lies beside the pages is played; a single file has none, and no place for one."""
    with met(chromium, written.addresses["directory"]) as found:
        found.open(f"#/episode/{written.evolver}/{written.episode}", "video")
        found.until("document.querySelector('video').readyState >= 1")
    with met(chromium, written.addresses["file"]) as found:
        found.open(f"#/episode/{written.evolver}/{written.episode}", "canvas")
        assert found.page.locator("video").count() == 0


def test_a_web_host(chromium: "Browser", written: Written) -> None:
    """Below any address of a host that serves plain files the pages are the same, film and figures included."""
    directory = Path(unquote(urlsplit(written.addresses["directory"]).path)).parent
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory.parent))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/{directory.name}/index.html"
        with met(chromium, address) as found:
            for route, until in (
                ("#/?tables=paper", ".board table"), ("#/task/cartpole", ".chart svg .curve"),
                (f"#/run/{written.evolver}/0/change", ".code .row"),
                (f"#/episode/{written.evolver}/{written.episode}", "video"),
            ):  # fmt: skip
                found.open(route, until)
            found.until("document.querySelector('video').readyState >= 1")
            found.open("#/report", "img.figure")
            found.until("document.querySelector('img.figure').naturalWidth > 0")
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of what is asked."""


def test_the_report_s_figures_are_shown(chromium: "Browser", written: Written) -> None:
    """The suite's page of a directory leads to the figures and tables beside it; those of a single file have none."""
    with met(chromium, written.addresses["directory"]) as found:
        found.open("#/", ".board table")
        found.page.click("text=Figures and tables of these runs")
        found.page.wait_for_selector("img.figure")
        found.until("document.querySelector('img.figure').naturalWidth > 0")
        assert found.page.locator("a[href='tables/leaderboard.csv']").count() == 1
    with met(chromium, written.addresses["file"]) as found:
        found.open("#/", ".board table")
        assert found.page.locator("text=Figures and tables").count() == 0


def test_a_single_file_asks_for_nothing(chromium: "Browser", written: Written) -> None:
    """Whatever page of it is opened, no other file is asked for."""
    with met(chromium, written.addresses["file"]) as found:
        asked: list[str] = []
        found.page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        for route, until in (
            ("#/", ".board table"), ("#/task/cartpole", ".chart svg .curve"), (f"#/run/{written.evolver}", ".code"),
            (f"#/episode/{written.evolver}/{written.episode}", "canvas"),
        ):  # fmt: skip
            found.open(route, until)
        assert {one for one in asked if not one.startswith("data:")} == {written.addresses["file"]}


@pytest.mark.parametrize("form", FORMS)
def test_a_hostile_record_is_text_from_a_disk(chromium: "Browser", tmp_path: Path, form: str) -> None:
    """Markup in an agent's name, its files, its output and its transcript is shown as it is, and does nothing."""
    hostile_run(tmp_path / "runs" / "run")
    pages = Pages([tmp_path / "runs"])
    if form == "file":
        write_single_file(tmp_path / "pages" / "index.html", pages)
    else:
        write_pages(tmp_path / "pages", pages)
    (run,) = RunIndex([tmp_path / "runs"]).directories()
    with met(chromium, (tmp_path / "pages" / "index.html").as_uri()) as found:
        for route, until in (
            ("#/", ".board td"), ("#/task/toy", "svg a"), (f"#/run/{run}/1/change", ".row.plus"),
            (f"#/run/{run}/1/feedback", ".printed"), (f"#/run/{run}/1/transcript", ".said"),
        ):  # fmt: skip
            found.open(route, until)
            assert "<img src=x onerror=" in found.page.inner_text("main"), route
            assert "owned" not in found.page.title().split("<")[0]
            assert found.page.locator("img, main script").count() == 0
            assert "\x1b" not in found.page.inner_text("main")
        found.open(f"#/run/{run}/1/feedback", ".summary dt")
        assert "__proto__" in found.page.inner_text(".summary")


def test_a_page_s_policy_holds(chromium: "Browser", written: Written) -> None:
    """A script that gets into the page all the same is refused, and so is what it would ask of another address."""
    with met(chromium, written.addresses["directory"]) as found:
        found.open("#/", ".board table")
        done = found.page.evaluate(
            """async () => {
              const script = document.createElement("script");
              try {
                script.textContent = "globalThis.owned = true";
                document.head.append(script);
              } catch { /* refused */ }
              const asked = await fetch("https://example.invalid/").then(() => "answered", () => "refused");
              return [globalThis.owned ?? "refused", asked];
            }"""
        )
        assert done == ["refused", "refused"]
        assert all("Content Security Policy" in one or "TrustedScript" in one for one in found.said)
        found.said.clear()
        found.left.clear()
