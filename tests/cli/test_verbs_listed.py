"""The verbs: a file each, listed without being loaded."""

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from evopolicygym.cli.main import HEADINGS, Verbs, app
from shell import Shell

VERBS = [(heading, name, summary) for heading, verbs in Verbs().sections.items() for name, summary in verbs.items()]


@pytest.mark.parametrize(("heading", "name", "summary"), VERBS, ids=[name for _, name, _ in VERBS])
def test_every_verb_is_listed_with_a_summary(shell: Shell, heading: str, name: str, summary: str) -> None:
    """The first line of its file is what --help says of it, below the heading of its folder."""
    text = " ".join(shell("--help").out.split())

    assert heading in HEADINGS.values()
    assert f"{name} {summary}" in text
    assert summary.endswith(".")


def without_example(name: str, command: Any) -> list[str]:
    """Return the verbs, with those below them, whose help has no command to copy."""
    missing = [] if f"evopolicygym {name.partition(' ')[0]}" in (command.epilog or "") else [name]
    for below, verb in getattr(command, "commands", {}).items():
        missing += without_example(f"{name} {below}", verb)
    return missing


def test_every_help_has_an_example() -> None:
    """The help of each verb, and of the verbs below it, ends with a command that can be copied."""
    program = get_command(app)
    verbs = {name: program.commands[name] for name in program.commands}  # type: ignore[attr-defined]

    assert len(verbs) > 20
    assert [missing for name, verb in verbs.items() for missing in without_example(name, verb)] == []


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
    assert "'leaderboard'" in " ".join(shell("leaderbord").err.split())
