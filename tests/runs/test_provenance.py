"""Where records come from: what somebody else's names is run only when its reader says so, at the reader's level."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import own_pack
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.run import Stage
from evopolicygym.core.task import Limits, Task
from evopolicygym.environments.derived import pack_spec
from evopolicygym.records import experiment
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.verify import findings
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.zygote import create_worker_dir, install_checkpoint
from evopolicygym.runs.preflight import check_simulator
from evopolicygym.runs.replay import ReplayOptions, play_post_hoc, replay
from evopolicygym.runs.run import resume
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.packages import policy_library
from evopolicygym.specs import catalog, pack_catalog
from fakes import opening
from hostile_records import SECRET, Outside, foreign, unfinished
from played_runs import PlayedRun
from shell import Shell


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    """Return what no record may reach."""
    outside = Outside(tmp_path / "outside")
    outside.lay()
    return outside


def take_up(root: Path, *, trusted: bool = False) -> Stage:
    return resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None, trusted=trusted).stage


def test_a_record_does_not_lower_the_level(tmp_path: Path, outside: Outside) -> None:
    """A run that says it was played at none is played again, and post hoc, at the strongest level here."""
    paths = foreign(tmp_path / "run", outside)
    strongest = choose("auto").name

    assert read_run(paths.root).state.opened.isolation == "none"
    assert {one.isolation for one in replay(paths.root, ReplayOptions(workers=1))} == {strongest}
    assert play_post_hoc(paths.root, lambda: None, ReplayOptions(workers=1)).isolation == strongest
    assert not outside.touched.exists()


def test_a_reader_names_the_level(tmp_path: Path, outside: Outside) -> None:
    """The reader may ask for another level, which the finding tells."""
    paths = foreign(tmp_path / "run", outside)

    assert {one.isolation for one in replay(paths.root, ReplayOptions(workers=1, isolation="process"))} == {"process"}
    with pytest.raises(UsageError, match="thick"):
        list(replay(paths.root, ReplayOptions(isolation="thick")))


def test_a_foreign_run_is_not_resumed_unasked(tmp_path: Path, outside: Outside, shell: Shell) -> None:
    """Who resumes somebody else's run is told which command would run, at which level, and by which option."""
    paths = unfinished(tmp_path / "run", outside)
    left = shell("resume", paths.root)

    assert left.code == UsageError.exit_code
    assert f"/bin/sh -c 'touch {outside.touched}'" in left.err
    assert "isolation 'none'" in left.err
    assert "--trust" in left.err
    assert not outside.touched.exists()


def test_one_s_own_run_is_resumed_and_a_trusted_one(run_copy: PlayedRun) -> None:
    """A run that was begun here goes on by itself, anybody's where its reader trusts it."""
    root, state_home = run_copy.paths.root, run_copy.state_home

    assert take_up(root) is Stage.FINISHED
    shutil.rmtree(state_home / "evopolicygym" / "experiments" / "marks")
    with pytest.raises(UsageError, match="--trust"):
        take_up(root)
    assert take_up(root, trusted=True) is Stage.FINISHED


def test_a_simulator_of_the_records_own_is_not_run_unasked(tmp_path: Path, outside: Outside) -> None:
    """A spec that imports a module, or hands a known simulator other arguments, is played by who trusts it only."""
    known = opening(task=Task(catalog.load("cartpole")))
    root = foreign(tmp_path / "run", outside).root
    check_simulator(root, known, trusted=False)
    for changes in ({"imports": ("antigravity",)}, {"arguments": {"a": 1}}, {"id": "Acrobot-v1"}, {"name": "own.toml"}):
        other = opening(task=Task(replace(known.task.environment, **changes)))

        check_simulator(root, other, trusted=True)
        with pytest.raises(UsageError, match="--trust"):
            check_simulator(root, other, trusted=False)


def test_a_task_of_a_pack_is_known(tmp_path: Path, outside: Outside) -> None:
    """A pack's task is played without a word, but not with a module, an argument or a Python that is not the pack's."""
    spec = pack_spec(*(pack_catalog.find("ALE/Tetris-v5") or pytest.fail("the pack lost its task")))
    root = foreign(tmp_path / "run", outside).root
    check_simulator(root, opening(task=Task(spec)), trusted=False)
    for changes in ({"imports": ("antigravity",)}, {"arguments": {"a": 1}}, {"pack": ""}, {"pack": "../mine"}):
        with pytest.raises(UsageError, match="--trust"):
            check_simulator(root, opening(task=Task(replace(spec, **changes))), trusted=False)


def test_a_record_names_no_file_that_is_read(tmp_path: Path, outside: Outside) -> None:
    """A pack's file that a record names as its environment makes nothing known."""
    (tmp_path / "walks.toml").write_text(own_pack.FILE)
    pack = pack_catalog.load(str(tmp_path / "walks.toml"))
    spec = replace(pack_spec(pack, pack.tasks[0]), name=f"{pack.file}:{pack.tasks[0].id}")
    root = foreign(tmp_path / "run", outside).root

    with pytest.raises(UsageError, match="--trust"):
        check_simulator(root, opening(task=Task(spec)), trusted=False)


def test_a_linked_directory_is_no_part_of_a_checkpoint(tmp_path: Path, outside: Outside) -> None:
    """A reader's private file reaches no policy: a link beside the hashed files is named, and nothing is played."""
    paths = foreign(tmp_path / "run", outside)
    selected = read_run(paths.root).state.selected
    assert selected is not None
    (paths.checkpoint(selected.checkpoint) / "data").symlink_to(outside.root / "private")
    wrong = [one.name for one in findings(paths.root) if not one.ok]

    assert f"checkpoint {selected.checkpoint[:12]}" in wrong
    with pytest.raises(RecordError, match=r"data .*link"):
        list(replay(paths.root, ReplayOptions(workers=1)))


def test_what_is_played_is_what_was_hashed(tmp_path: Path, outside: Outside) -> None:
    """A checkpoint whose content is not what its name says is not played."""
    paths = foreign(tmp_path / "run", outside)
    for policy in paths.checkpoints.rglob("policy.py"):
        policy.write_text("another = 1\n", encoding="utf-8")

    with pytest.raises(RecordError, match="checkpoint"):
        list(replay(paths.root, ReplayOptions(workers=1)))


@pytest.mark.parametrize("name", ["data", "data.py"])
def test_no_link_is_copied_for_a_policy(tmp_path: Path, outside: Outside, name: str) -> None:
    """The last who lays a checkpoint out refuses a link, to a directory as to a file."""
    ground = create_worker_dir(tmp_path / "ground", Limits(), policy_library())
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / name).symlink_to(outside.secret if "." in name else outside.root / "private")

    with pytest.raises(RecordError, match="link"):
        install_checkpoint(ground, tmp_path / "checkpoint")
    assert [path for path in ground.policy.rglob("*") if path.is_file() and SECRET in path.read_text()] == []


@pytest.mark.parametrize(
    "name",
    ["logs/agent.log", "logs/simulators.log", "run.json", "lock", "logs", "staging", "staging/workers", "workspace"],
)
def test_nothing_is_written_through_a_planted_link(tmp_path: Path, outside: Outside, name: str) -> None:
    """Who goes on writing a run refuses a link where it would write, by its name."""
    paths = RunPaths(unfinished(tmp_path / "run", outside).root)
    place = paths.root / name
    before = outside.found()
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(place.with_name("before"))
    place.symlink_to(outside.secret if place.suffix or name == "lock" else outside.root / "private")

    with pytest.raises(RecordError, match=rf"{place.name} .*link"):
        RunWriter(paths.root)
    assert outside.found() == before


@pytest.mark.parametrize("name", ["../private", "/etc", "", ".hidden", "a/b"])
def test_no_name_of_an_experiment_leads_elsewhere(name: str) -> None:
    """A record can't have a secret read from anywhere but its place."""
    with pytest.raises(RecordError, match=re.escape(repr(name))):
        experiment.load_experiment(name)
