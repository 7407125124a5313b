"""Times the viewer's pages in a real browser, served and from a disk: many runs, and one of many long episodes.

    python benchmarks/viewer.py [--runs 500] [--submissions 128] [--steps 1000] [--json]

The many runs are copies of one real run's document, as in ``leaderboard.py``; the long run is a real journal of the toy
of the tests, with a checkpoint and a recorded episode for each submission. Wants playwright and a chromium (CHROMIUM).
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
from playwright.sync_api import Page, sync_playwright

from browsers import ARGUMENTS, browser_path
from diagnosed import FROM_NOTHING, closing, recorded, submitted
from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.rollout import Recording
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.paths import EPISODES, RunPaths, episode_name
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, write_episode
from evopolicygym.specs import catalog
from evopolicygym.viewer.site.document_cache import Episodes
from evopolicygym.viewer.site.pages import Pages, write_pages, write_single_file
from evopolicygym.viewer.site.serving import ServedViewer
from fakes import opening
from made_records import write_many_made

REPEATS = 2
TASKS = [catalog.load(task) for task in sorted(paper().tasks)]
SCROLL = """() => new Promise((done) => {
  const list = document.querySelector('.submissions'), gaps = []; let before = performance.now(), left = 120;
  const frame = (now) => { gaps.push(now - before); before = now; list.scrollTop += 24;
    if (left-- > 0) requestAnimationFrame(frame); else done(gaps.slice(2).sort((a, b) => a - b)); };
  requestAnimationFrame(frame); })"""


def long_run(root: Path, submissions: int, steps: int) -> None:
    """Write a run of so many submissions, each of one episode of so many steps."""
    random = np.random.default_rng(0)
    names = [f"c{number:03d}" for number in range(submissions)]
    task = Task(FROM_NOTHING, BudgetRule(submissions), validation_cases=2, held_out_cases=3)
    played = [event for at, name in enumerate(names) for event in submitted(at, [at], [float(random.normal(at))], name)]
    validation = {name: [float(at), float(at) + 1] for at, name in enumerate(names)}
    bundles = {name: {"policy.py": f"GAIN = {at}\n" + "x = 1\n" * 300} for at, name in enumerate(names)}
    recorded(root, closing([opening(task=task), *played], validation, [1.0, 2.0, 3.0]), bundles)
    for at in range(submissions):
        trajectory = Trajectory(
            random.normal(size=(steps + 1, 2)).astype("float32"), random.integers(0, 2, steps),
            random.normal(size=steps), [{}] * steps, frozenset(), terminated=True, truncated=False,
        )  # fmt: skip
        folder = RunPaths(root).published_feedback(at) / EPISODES / episode_name(at)
        write_episode(folder, EpisodeFiles(trajectory, b"a word\n", b"", None, ()), Recording.TRAJECTORY)


def resident_mb() -> float:
    """Return this process's memory, the served site's included."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def paint_ms(page: Page) -> float:
    """Return when the page first painted anything, from the beginning of its loading."""
    return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def from_disk(place: Path, page: Page, runs: Path, route: str, until: str) -> dict[str, float]:
    """Write static pages of everything in both forms; return how long that took, sizes, and how soon a page shows."""
    pages, found = Pages([runs], episodes=Episodes.ALL, most_bytes=1 << 30), dict[str, float]()
    for form, write, path in (
        ("directory", write_pages, place),
        ("file", write_single_file, place.with_suffix(".html")),
    ):
        began = perf_counter()
        tally = write(path, pages)
        found |= {f"{form}_written_s": perf_counter() - began, f"{form}_mb": tally.bytes / (1 << 20)}
        address = path / "index.html" if form == "directory" else path
        began = perf_counter()
        page.goto(f"{address.as_uri()}{route}")
        page.wait_for_selector(until, timeout=120_000)
        found[f"{form}_shown_s"] = perf_counter() - began
    return found


def many_runs(place: Path, page: Page, count: int) -> dict[str, float]:
    """Return how soon the suite's page shows what, the server just started."""
    agents = [f"agent-{number:02d}" for number in range(-(-count // (len(TASKS) * REPEATS)))]
    made = write_many_made(place / "runs", agents, REPEATS, TASKS)
    disk = from_disk(place / "pages", page, place / "runs", "#/", ".board table")
    with ServedViewer([place / "runs"]) as viewer:
        began = perf_counter()
        page.goto(viewer.entrance)
        paint = paint_ms(page)
        page.wait_for_selector("section table tbody tr", timeout=120_000)
        listed = perf_counter() - began
        page.wait_for_selector(".board table", timeout=120_000)
        board = perf_counter() - began
        again = perf_counter()
        page.reload()
        page.wait_for_selector(".board table")
        return {
            "runs": made, "first_paint_s": paint / 1000, "runs_listed_s": listed, "leaderboard_s": board,
            "leaderboard_again_s": perf_counter() - again, **{f"suite_{name}": value for name, value in disk.items()},
        }  # fmt: skip


def one_run(place: Path, page: Page, submissions: int, steps: int) -> dict[str, float]:
    """Return how a long run's page behaves, and what the server holds before and after all of it was looked at."""
    long_run(place / "long" / "run", submissions, steps)
    with ServedViewer([place / "long"]) as viewer:
        (found,) = viewer.library.shelf.places().values()
        disk = from_disk(place / "long_pages", page, place / "long", f"#/run/{found.id}/0", ".code .row")
        began = perf_counter()
        page.goto(f"{viewer.entrance}#/run/{found.id}/0")
        page.wait_for_selector(".code .row", timeout=60_000)
        shown = perf_counter() - began
        gaps = page.evaluate(SCROLL)
        began = perf_counter()
        for _ in range(submissions - 1):
            page.keyboard.press("j")
        page.wait_for_selector(f".panel h2:has-text('Submission {submissions - 1}')")
        walked = perf_counter() - began
        began = perf_counter()
        page.goto(f"{viewer.address}/#/episode/{found.id}/train-5-0")
        page.wait_for_selector("canvas")
        episode = perf_counter() - began
        before = resident_mb()
        for _ in range(3):
            for at in range(submissions):
                for name in (f"submission/{at}", f"episode/train-{at}-0"):
                    viewer.library.document(f"run/{found.id}/{name}")
        return {
            "submissions": submissions, "steps": steps, "run_shown_s": shown, "frame_median_ms": gaps[len(gaps) // 2],
            "frame_95_ms": gaps[int(len(gaps) * 0.95)], "key_ms": walked / (submissions - 1) * 1000,
            "episode_shown_s": episode, "server_mb_before": before, "server_mb_after_all_thrice": resident_mb(),
            **{f"run_{name}": value for name, value in disk.items()},
        }  # fmt: skip


def main() -> None:
    """Make the runs, look at them, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--submissions", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=list(ARGUMENTS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        figures = many_runs(Path(folder), page, asked.runs)
        figures |= one_run(Path(folder), page, asked.submissions, asked.steps)
        browser.close()
    figures["load_average"] = os.getloadavg()[0]
    print(
        json.dumps(figures, indent=2) if asked.json else "\n".join(f"{key:>26}  {figures[key]:.4g}" for key in figures)
    )


if __name__ == "__main__":
    main()
