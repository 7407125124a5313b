"""Commands that are printed are made of our own words: a path or a name is one word of them, and no option."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from diagnosed import known_run
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import shell_word
from evopolicygym.environments.description import _pack_hint
from evopolicygym.environments.versions import not_installed
from evopolicygym.export.bundle import bundle_runs
from evopolicygym.packs.installation import interpreter
from evopolicygym.records.checked import open_runs
from evopolicygym.records.experiment import EXPERIMENT_FILE
from evopolicygym.specs import catalog
from evopolicygym.viewer.documents.overview import RunIndex
from exported import recorded
from played_runs import PlayedRun
from whole_runs import state_kept_in

HOSTILE = "x; touch planted | sh #"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("runs/mine", "runs/mine"),
        (HOSTILE, f"'{HOSTILE}'"),
        ("--trust", "./--trust"),
        ("-rf x", "'./-rf x'"),
        ("a\nb", "'a\\nb'"),
        ("a\x1b[2Jb", "'a\\x1b[2Jb'"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "'a\\u202eb'"),
        ("it's", "'it'\"'\"'s'"),
        ("", "''"),
    ],
)
def test_a_word(name: str, expected: str) -> None:
    """Whatever a name holds, a shell reads one word, which is printable and doesn't begin as an option does."""
    assert shell_word(name) == expected
    (word,) = shlex.split(shell_word(Path(name))) if name else [""]
    assert word.isprintable()
    assert not word.startswith("-")


def test_a_command_of_an_experiment_from_elsewhere(played_run: PlayedRun, tmp_path: Path) -> None:
    """The directory of a record's experiment is one word of the command that reveals it."""
    copy = played_run.copied(tmp_path)
    below = copy.paths.root.relative_to(copy.runs / "default")
    (copy.runs / "default").rename(copy.runs / HOSTILE)
    assert (copy.runs / HOSTILE / EXPERIMENT_FILE).is_file()
    with state_kept_in(copy.state_home), pytest.raises(UsageError, match="publish them") as raised:
        bundle_runs(open_runs([copy.runs / HOSTILE / below]), tmp_path / "bundle.tar.gz")

    assert str(raised.value).endswith(f"evopolicygym reveal '{HOSTILE}'")


def test_a_pack_of_a_record() -> None:
    """The name of a pack that a record states is one word."""
    spec = replace(catalog.load("cartpole"), pack=HOSTILE)
    with pytest.raises(UsageError) as raised:
        interpreter(HOSTILE)

    assert str(raised.value).endswith(f"packs install '{HOSTILE}'")
    assert f"packs check '{HOSTILE}'" in _pack_hint(spec)


def test_an_extra_of_a_record() -> None:
    """An extra that isn't ours is no part of the command that installs it; one of ours is."""
    spec = catalog.load("cartpole")

    assert HOSTILE not in str(not_installed(replace(spec, extra=f"x]'{HOSTILE}"), "thing"))
    assert str(not_installed(replace(spec, extra="viewer"), "thing")).endswith("pip install 'evopolicygym[viewer]'")


def test_the_viewers_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run directory with a line end, or that begins as an option does, is one printable word."""
    monkeypatch.chdir(tmp_path)
    for name in ("-x\n; touch planted", "--trust"):
        recorded(tmp_path / name / "run", known_run()[:3])
        (place,) = RunIndex([Path(name)]).directories().values()
        command = place.activity()["resume"]

        assert command.isprintable()
        assert len(shlex.split(command)) == 3
        assert not shlex.split(command)[2].startswith("-")
    assert not (tmp_path / "planted").exists()
