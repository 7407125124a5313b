"""Shards from strangers: what is gathered was played elsewhere, is checked whole, and gives no command."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.records import verify
from evopolicygym.records.experiment import LEDGER_FILE, accept_secret, begin, ledger_of, missing_runs, share_secret
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.records.rollback_guard import FINDING, has_mark, is_own_run
from evopolicygym.runs.preflight import check_agent, check_simulator
from evopolicygym.runs.run import play
from evopolicygym.runs.suites import suite as suites_module
from evopolicygym.runs.suites.document import suite_lock
from evopolicygym.runs.suites.gather import GatheredSuite, gather
from evopolicygym.runs.suites.records import PlannedRunVerdict, find_results, is_own
from evopolicygym.runs.suites.schedule import Shard
from evopolicygym.runs.suites.suite import SuiteConfig, load_suite, plan
from shell import Shell
from suites import suite
from whole_runs import state_kept_in

HOSTILE = "evopolicygym suite smoke; touch planted | sh --shard 1/2"


def _suite(machine: Path) -> SuiteConfig:
    return suite(machine / "runs", "random", split="private", isolation="none", repeats=2)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place with a user's state at home, and a shard that another user played."""
    place = tmp_path_factory.mktemp("shards")
    with state_kept_in(place / "home" / "state"):
        text = share_secret(place / "home" / "runs", "smoke")
    with state_kept_in(place / "shard" / "state"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOPOLICYGYM_SECRET", text)
        asked = _suite(place / "shard")
        assert accept_secret(place / "shard" / "runs", "smoke")
        with suite_lock(asked, Shard(1, 2)):
            play(plan(asked)[0].config, lambda _paths, _state: None, lambda _event, _state: None)
    return place


@pytest.fixture
def place(played: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of the place, at home."""
    copy = Path(shutil.copytree(played, tmp_path / "place", symlinks=True))
    with state_kept_in(copy / "home" / "state"):
        yield copy


def _gathered(place: Path) -> GatheredSuite:
    return gather([place / "shard" / "runs"], place / "home" / "runs")


def _run(below: Path) -> Path:
    (root,) = find_runs(below)
    return root


def test_a_run_without_its_hidden_episodes_is_not_gathered(place: Path) -> None:
    """Returns that nothing in the record shows, as the hidden episodes were left out, are not brought home."""
    root = _run(place / "shard" / "runs")
    shutil.rmtree(RunPaths(root).evaluation)
    (problem,) = _gathered(place).problems

    assert "evaluation" in problem
    assert list(find_runs(place / "home" / "runs")) == []


def test_a_gathered_run_was_not_played_here(place: Path) -> None:
    """It has no mark, so that nothing of it starts without --trust; its experiment lists it as gathered."""
    found = _gathered(place)
    assert found.problems == ()
    root = _run(found.directory)
    record = read_run(root)
    opened = record.state.opened
    lines = (state_directory() / opened.experiment / LEDGER_FILE).read_text("utf-8").splitlines()

    assert (has_mark(root), is_own_run(root)) == (False, False)
    assert [json.loads(line)["gathered"] for line in lines[1:]] == [True]
    assert [finding.verdict for finding in verify.findings(root) if finding.name == FINDING] == [verify.UNCHECKED]
    assert missing_runs({opened.experiment: [opened.run_id]}) == {}
    spec = replace(opened.task.environment, id="planted:Planted-v0", name="planted")
    with pytest.raises(UsageError, match="--trust"):
        check_simulator(root, replace(opened, task=replace(opened.task, environment=spec)), trusted=False)
    with pytest.raises(UsageError, match="--trust"):
        check_agent(root, opened, trusted=False)


def test_a_suite_continues_after_gathering(place: Path) -> None:
    """A gathered run is not played again, and gathering again lists nothing twice."""
    found = _gathered(place)
    before = ledger_of(read_run(_run(found.directory)).state.opened.experiment)
    _gathered(place)
    results = find_results(plan(_suite(place / "home")), found.directory)

    assert [results[number].verdict for number in (0, 1)] == [PlannedRunVerdict.FINISHED, PlannedRunVerdict.WAITING]
    assert ledger_of(read_run(_run(found.directory)).state.opened.experiment) == before


@pytest.mark.parametrize("changed", ["evaluation", "another experiment", "not listed"])
def test_a_gathered_run_that_no_longer_holds(changed: str, place: Path) -> None:
    """A gathered run counts only while all of it verifies, in its own experiment's directory, and listed."""
    root = _run(_gathered(place).directory)
    assert is_own(read_run(root))
    if changed == "evaluation":
        shutil.rmtree(RunPaths(root).evaluation)
    elif changed == "not listed":
        (state_directory() / read_run(root).state.opened.experiment / LEDGER_FILE).unlink()
    else:
        begin(place / "home" / "runs", "other")
        root = Path(shutil.copytree(root, place / "home" / "runs" / "other" / Path(*root.parts[-3:])))

    assert not is_own(read_run(root))


def test_another_record_of_a_gathered_id(place: Path) -> None:
    """A record whose event log is not the one that was gathered is found by verify."""
    root = _run(_gathered(place).directory)
    ledger = state_directory() / read_run(root).state.opened.experiment / LEDGER_FILE
    first, line = ledger.read_text("utf-8").splitlines()
    ledger.write_text(f"{first}\n{json.dumps({**json.loads(line), 'last': '0' * 64})}\n", encoding="utf-8")

    assert not is_own(read_run(root))
    assert [finding.ok for finding in verify.findings(root) if finding.name == FINDING] == [False]


def test_a_task_of_the_same_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is matched by its task's fingerprint, not only by its name."""
    build = suites_module.build_run_config

    def longer(task: str, options: object) -> object:
        config = build(task, options)  # type: ignore[arg-type]
        environment = replace(config.task.environment, max_steps=config.task.environment.max_steps + 1)
        return replace(config, task=replace(config.task, environment=environment))

    monkeypatch.setattr(suites_module, "build_run_config", longer)
    (problem,) = _gathered(place).problems

    assert "its task is not the suite's cartpole" in problem


def test_no_text_of_a_shard_is_a_command(place: Path, shell: Shell) -> None:
    """A missing run's shard is continued in words, whatever its lock file holds."""
    for file in (place / "shard" / "runs" / "smoke").glob("*.lock"):
        file.write_text(HOSTILE, encoding="utf-8")
    ended = shell("suites", "gather", place / "shard" / "runs", "--runs", place / "home" / "runs")
    documents = shell("suites", "gather", place / "shard" / "runs", "--runs", place / "home" / "runs", "--json").out

    assert "touch planted" not in ended.out + ended.err + documents
    assert "continue with the command that began it, with --shard 2/2" in ended.out


def test_the_command_of_a_suite_that_ships(tmp_path: Path) -> None:
    """Where the suite is one that ships, with its own options, the command is made of its name and the shard."""
    for experiment, more in (("smoke", ""), ("mine", " --experiment mine")):
        asked = load_suite("smoke", {"runs": str(tmp_path / "shard"), "experiment": experiment})
        begin(tmp_path / "shard", experiment)
        with suite_lock(asked, Shard(1, 2)):
            pass
        found = gather([tmp_path / "shard" / experiment], tmp_path / "home")

        commands = [part.command for part in found.missing]
        assert commands == [f"evopolicygym suite smoke{more} --shard {number}/2" for number in (1, 2)]
