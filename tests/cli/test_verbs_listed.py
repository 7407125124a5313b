"""The verbs: a file each, listed without being loaded."""

import subprocess
import sys

import pytest

from evopolicygym.cli.main import HEADINGS, Verbs
from shell import Shell

VERBS = [(heading, name, summary) for heading, verbs in Verbs().sections.items() for name, summary in verbs.items()]


@pytest.mark.parametrize(("heading", "name", "summary"), VERBS, ids=[name for _, name, _ in VERBS])
def test_every_verb_is_listed_with_a_summary(shell: Shell, heading: str, name: str, summary: str) -> None:
    """The first line of its file is what --help says of it, below the heading of its folder."""
    text = " ".join(shell("--help").out.split())

    assert heading in HEADINGS.values()
    assert f"{name} {summary}" in text
    assert summary.endswith(".")


def test_listing_verbs_loads_none() -> None:
    """--help imports no verb, and neither pydantic nor what draws boxes."""
    program = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from evopolicygym.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print('LOADED', [one for one in sys.modules if 'cli.verbs' in one or one == 'pydantic'])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "LOADED []" in found.stdout


def test_a_misspelt_verb_is_answered_with_the_nearest(shell: Shell) -> None:
    """Verbs that are not loaded are known by name."""
    assert "Did you mean 'leaderboard'?" in " ".join(shell("leaderbord").err.split())
