"""Runs tests in parallel, and what failed once more alone: ``python tests/support/run_gate.py [PYTEST OPTION ...]``.

A test that fails twice is a defect. One that passes alone is accepted, named in the last lines and appended to
``flaky.jsonl`` below the user's cache directory. A test that is in that file twice already has to be mended, or marked
``nightly``; until then it fails the run.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from places import ROOT

FLAKY = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evopolicygym" / "flaky.jsonl"
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
MOST_RETRIED = 20
"""More failures than this are not an accident of the machine's load."""
MOST_ACCEPTED = 2
"""How often a test may pass only when it runs alone."""


def run_pytest(*options: str) -> int:
    """Run pytest in the checkout and return its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, check=False).returncode


def failed_tests() -> set[str]:
    """Return the node ids that failed in the last run."""
    return set(json.loads(LAST_FAILED.read_text(encoding="utf-8"))) if LAST_FAILED.exists() else set()


def accept(tests: list[str]) -> bool:
    """Record tests that passed alone; return whether all of them may, going by how often that has happened before."""
    FLAKY.parent.mkdir(parents=True, exist_ok=True)
    lines = FLAKY.read_text(encoding="utf-8").splitlines() if FLAKY.exists() else []
    before = Counter(json.loads(line)["test"] for line in lines)
    with FLAKY.open("a", encoding="utf-8") as file:
        file.writelines(
            json.dumps({"test": test, "at": datetime.now(UTC).isoformat(timespec="seconds")}) + "\n" for test in tests
        )
    for test in tests:
        print(f"passed alone: {test} (time {before[test] + 1})")
    worn_out = [test for test in tests if before[test] >= MOST_ACCEPTED]
    for test in worn_out:
        print(
            f"FAILED {test}: it passes only alone, again. Mend it or mark it nightly, then delete its lines in {FLAKY}."
        )
    return not worn_out


def main(options: list[str]) -> int:
    """Run the tests and return an exit code of pytest's kind."""
    LAST_FAILED.unlink(missing_ok=True)
    code = run_pytest(*options)
    failed = failed_tests()
    if code != 1 or not 0 < len(failed) <= MOST_RETRIED:
        return code
    print(f"{len(failed)} failed; each runs once more, alone", flush=True)
    alone = run_pytest(*options, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")
    passed = sorted(failed - failed_tests()) if alone in {0, 1} else []
    accepted = accept(passed)
    return alone or int(not accepted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
