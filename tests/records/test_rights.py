"""Who may write into a run's directories, and that its owner can remove it."""

import shutil
import stat
from pathlib import Path

import pytest

from evopolicygym.records.feedback import feedback_read_only
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.verify import findings
from played_runs import PlayedRun

pytestmark = pytest.mark.needs_root


def closed_to_their_owner(root: Path) -> list[Path]:
    """Return the directories that their owner may not list, enter or write into."""
    found = [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]
    return [path for path in found if path.stat().st_mode & stat.S_IRWXU != stat.S_IRWXU]


def test_a_run_that_is_over_can_be_removed(run_copy: PlayedRun) -> None:
    """Its owner may write into every directory of it, feedback too, and it verifies as before."""
    run = run_copy
    amiss = [one.name for one in findings(run.paths.root) if not one.ok]

    assert closed_to_their_owner(run.paths.root) == []
    assert amiss == []
    shutil.rmtree(run.paths.root)
    assert not run.paths.root.exists()


def test_feedback_is_read_only_while_an_agent_is_at_work(tmp_path: Path) -> None:
    """What was published before is closed again when a run is resumed, and open once its agent is gone."""
    published = RunPaths(tmp_path).published_feedback(0) / "episodes"
    published.mkdir(parents=True)
    with feedback_read_only(RunPaths(tmp_path)):
        meanwhile = closed_to_their_owner(tmp_path)

    assert meanwhile == [published.parent, published]
    assert closed_to_their_owner(tmp_path) == []


def test_what_an_agent_left_can_be_removed_and_leads_nowhere(tmp_path: Path) -> None:
    """A directory without any rights is opened; a link in its place is not followed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o500)
    paths = RunPaths(tmp_path / "run")
    (paths.system / "hidden" / "within").mkdir(parents=True)
    paths.feedback.mkdir()
    for name in ("system", "feedback"):
        (paths.workspace / name / "link").symlink_to(elsewhere)
    (paths.system / "hidden").chmod(0)
    with feedback_read_only(paths):
        pass

    assert closed_to_their_owner(paths.root) == []
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o500
