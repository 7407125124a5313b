"""`docs/measured_numbers.py` on a page of its own: numbers that match, that differ, and that sampling explains."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from places import ROOT

SCRIPT = ROOT / "docs" / "measured_numbers.py"
PRINTED = """\
| agent | score ± s.e. | tasks |
| tuner | 12.04 ± 0.31 | 1,210 |
| random_search | 7.50 ± 0.20 | 3 |
the share is 0.333
"""


def compared(tmp_path: Path, page: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the results for a page whose commands print the same."""
    (tmp_path / "print.py").write_text(f"print({PRINTED!r})", encoding="utf-8")
    (tmp_path / "page.md").write_text(page.replace("COMMAND", f"python {tmp_path}/print.py"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "page.md", "--json", *options], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def table(*rows: str, marks: str = "") -> str:
    """Return a table with its command."""
    return "\n".join(
        [f"<!-- numbers: COMMAND{marks} -->", "| agent | score ± s.e. | tasks |", "|---|---|---|", *rows, "", ""]
    )


def test_numbers_that_match_are_rounded_as_on_the_page(tmp_path: Path) -> None:
    """Rows and text whose numbers are the printed ones, rounded, are the same, in another order of rows too."""
    page = table("| random_search | 7.5 ± 0.2 | 3 |", "| tuner | 12.0 ± 0.3 | 1,210 |")
    code, found = compared(tmp_path, page + "<!-- numbers: COMMAND -->\nA share of 0.33, see `--tables 5`.\n")

    assert (code, [one["outcome"] for one in found]) == (0, ["same", "same"])


def test_numbers_that_differ_are_named(tmp_path: Path) -> None:
    """A number, a row and a share that are not printed are each a difference, and the exit code is 1."""
    rows = ("| tuner | 12.1 ± 0.3 | 1,210 |", "| tuner | 12.0 ± 0.4 | 1,210 |", "| nobody | 12.0 ± 0.3 | 1,210 |")
    code, found = compared(tmp_path, table(*rows) + "<!-- numbers: COMMAND -->\nA share of 0.34.\n")

    assert code == 1
    assert [(one["outcome"], one["line"], len(one["differences"])) for one in found] == [
        ("different", 1, 3),
        ("different", 8, 1),
    ]


def test_sampled_numbers_may_differ_by_their_errors(tmp_path: Path) -> None:
    """Four standard errors of the page and the output together are no difference, more are one."""
    near, far = ("| tuner | 13.40 ± 0.31 | 1,210 |", "| tuner | 14.20 ± 0.31 | 1,210 |")
    code, found = compared(
        tmp_path,
        table(near, marks="; sampled")
        + table(far, marks="; sampled")
        + "<!-- numbers: COMMAND; error 0.02 -->\nA share of 0.40.\n\n"
        + "<!-- numbers: COMMAND; error 0.01 -->\nA share of 0.40.\n",
    )

    assert (code, [one["outcome"] for one in found]) == (1, ["same", "different", "same", "different"])


def test_what_is_not_run(tmp_path: Path) -> None:
    """What takes long waits for --all, what depends on the machine is never run, and a command that fails is told."""
    wrong = "| tuner | 99 | 99 |"
    page = table(wrong, marks="; takes 5 min") + table(wrong, marks="; machine")
    fails = "<!-- numbers: python -c 1/0 -->\nA share of 0.33.\n"

    code, found = compared(tmp_path, page)
    code_of_all, found_of_all = compared(tmp_path, page + fails, "--all")

    assert (code, [one["outcome"] for one in found]) == (0, ["takes long", "machine"])
    assert (code_of_all, [one["outcome"] for one in found_of_all]) == (1, ["different", "machine", "failed"])
