"""Takes the pictures of the viewer's pages that the docs show, of real runs in a real browser.

    evopolicygym suite tuning --environment acrobot --agent tuner --agent random_search --repeats 2 --runs RUNS
    evopolicygym film RUNS/tuning/tuner/acrobot/RUN --split held_out --case 0     (for each run)
    python benchmarks/viewer_pictures.py RUNS --task acrobot

Wants playwright and a chromium (CHROMIUM names one that isn't found).
"""

import argparse
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from playwright.sync_api import sync_playwright

from browsers import ARGUMENTS, browser_path
from evopolicygym.analysis.results import load_results
from evopolicygym.viewer.site.serving import ServedViewer

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SETTLE_MS = 1500
WIDTH, HEIGHT = 1180, 760
PHONE = 390


def main() -> None:
    """Serve the runs, open each page, keep what is seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--task", default="cartpole", help="whose runs are shown closely")
    parser.add_argument("--agent", default="tuner", help="whose best run of that task is")
    options = parser.parse_args()
    results = [run for run in load_results([options.runs]).runs if run.task == options.task]
    best = max((run for run in results if run.agent_kind == options.agent), key=lambda run: run.score or float("-inf"))
    other = next(run for run in results if run.agent_kind != best.agent_kind)
    with ServedViewer([options.runs]) as viewer, sync_playwright() as started:
        ids = {place.root: place.id for place in viewer.documents.index.directories().values()}
        one, two = ids[best.root], ids[other.root]
        pages = {
            "suite": ("#/?with=paper", "th:has-text('rank score')", WIDTH, "light"),
            "task": (f"#/task/{options.task}", ".chart svg", WIDTH, "light"),
            "run": (f"#/run/{one}", ".submissions", WIDTH, "light"),
            "episode": (f"#/episode/{one}/held_out-0", "canvas", WIDTH, "light"),
            "compare": (f"#/compare/{one}/{two}", "main svg", WIDTH, "light"),
            "entry": (f"#/entry/{quote(best.agent)}", "main svg", WIDTH, "light"),
            "run_dark_phone": (f"#/run/{one}", ".submissions", PHONE, "dark"),
        }
        running = started.chromium.launch(executable_path=browser_path(), args=list(ARGUMENTS))
        for name, (route, until, width, scheme) in pages.items():
            context = running.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{viewer.entrance}{route}")
            page.wait_for_selector(until)
            page.wait_for_timeout(SETTLE_MS)
            page.screenshot(path=PICTURES / f"viewer_{name}.png")
            print(f"docs/pictures/viewer_{name}.png")
            context.close()
        running.close()


if __name__ == "__main__":
    main()
