"""Shards of a suite: the same runs as the whole suite plays, on machines that know nothing of each other."""

import json
import shutil
import signal
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.records import verify
from evopolicygym.records.checked import RecordState, look_at_run
from evopolicygym.records.experiment import SECRET_FILE_VARIABLE, SECRET_VARIABLE, accept_secret, begin, share_secret
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import EXPERIMENT_FILE, find_runs, read_run
from evopolicygym.records.rollback_guard import is_own_run
from evopolicygym.records.verify import findings
from evopolicygym.runs.suites.document import SUITE_FILE, suite_lock
from evopolicygym.runs.suites.gather import GatheredSuite, gather
from evopolicygym.runs.suites.play import play_suite, prepare_suite
from evopolicygym.runs.suites.records import is_own
from evopolicygym.runs.suites.schedule import Shard, expected_seconds, runs_of_shard, shard_numbers
from evopolicygym.runs.suites.suite import load_suite, plan
from players import EVOLVER_HALTS_AFTER, HALT
from sameness import feedback, told
from shell import Shell
from suites import Program, ended, suite
from whole_runs import state_kept_in

TINY = (
    *("--environment", "cartpole", "--budget", "2", "--validation", "1", "--held-out", "2"),
    *("--agent", "random", "--agent", "players:make_idler", "--jobs", "1"),
)
WHOLE = (
    *("--environment", "cartpole", "--environment", "pendulum", "--budget", "6", "--validation", "1"),
    *("--held-out", "2", "--agent", "tuner", "--agent", "players:make_evolver", "--repeats", "2", "--jobs", "1"),
)


@contextmanager
def machine(place: Path, secret: Path | None = None) -> Iterator[None]:
    """Be a machine whose user has a state directory of their own, and was handed a secret or not."""
    with pytest.MonkeyPatch.context() as patch, state_kept_in(place / "state"):
        if secret:
            patch.setenv(SECRET_FILE_VARIABLE, str(secret))
        yield


def shared_secret(place: Path) -> Path:
    """Begin the experiment of a suite at home; return the file that hands out its secret."""
    file = place / "smoke.secret"
    place.mkdir(exist_ok=True)
    with machine(place / "home"):
        file.write_text(share_secret(place / "home" / "runs", "smoke"), encoding="utf-8")
    return file


def shard_program(place: Path, arguments: tuple[str, ...], number: int, count: int) -> Program:
    """Return the program that plays a shard, with a directory of its own."""
    return Program(place / f"machine-{number}" / "runs", (*arguments, "--shard", f"{number}/{count}"))


def contents(below: Path) -> dict[tuple[str, str, int], object]:
    """Return what was submitted, played and scored in each run below a directory, bit for bit, by what the run is."""
    found: dict[tuple[str, str, int], object] = {}
    for root in find_runs(below):
        paths, state = RunPaths(root), read_run(root).state
        key = state.opened.task.environment.name, state.opened.agent.name, state.opened.seed
        assert key not in found
        found[key] = told(state), feedback(paths), played_bytes(paths.checkpoints), played_bytes(paths.evaluation)
    return found


def played_bytes(directory: Path) -> dict[str, bytes]:
    """Return the content of all files below a directory."""
    files = (file for file in directory.rglob("*") if file.is_file())
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def play_shards(place: Path, arguments: tuple[str, ...], count: int, secret: Path) -> None:
    """Play all shards of a suite at the same time, each as a user of its own."""
    with ExitStack() as stack:
        processes = []
        for number in range(1, count + 1):
            program = shard_program(place, arguments, number, count)
            with machine(program.runs.parent, secret):
                processes.append(stack.enter_context(program.start()))
        ends = [ended(process) for process in processes]

    assert [code for code, _, _ in ends] == [0] * count, ends


def play_whole(place: Path, arguments: tuple[str, ...], secret: Path) -> Path:
    """Play a suite without shards, with the same secret; return where its runs lie."""
    program = Program(place / "whole" / "runs", arguments)
    with machine(program.runs.parent, secret):
        code, _, complaints = program.played()
    assert code == 0, complaints
    return program.directory


def gathered(place: Path) -> GatheredSuite:
    """Gather all shards at home."""
    with machine(place / "home"):
        return gather(sorted(place.glob("machine-*")), place / "home" / "runs")


def test_shards_are_parts_of_a_suite(tmp_path: Path) -> None:
    """Every run is in one shard, no shard has more than its share of an agent's, and all have as much to do."""
    agents = [{"name": "codex", "model": f"model-{number}"} for number in range(4)] + [{"name": "tuner"}]
    planned = plan(load_suite("core16", {"runs": str(tmp_path), "agents": agents, "repeats": 2}))
    for count in (1, 2, 4, 7, 16):
        parts = [runs_of_shard(planned, Shard(number, count)) for number in range(1, count + 1)]
        seconds = [sum(expected_seconds(run.config) for run in part) for part in parts]
        most = max(number for part in parts for number in Counter(run.entry for run in part).values())

        assert sorted(run.number for part in parts for run in part) == list(range(len(planned)))
        assert most == -(-32 // count)
        assert max(seconds) <= 1.1 * sum(seconds) / count


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=some.integers(1, 9), repeats=some.integers(1, 4), more=some.integers(0, 3), agents=some.integers(1, 3))
def test_shards_make_a_suite_whole(tmp_path: Path, count: int, repeats: int, more: int, agents: int) -> None:
    """Each run is in exactly one shard of any number of them, and stays in it when the suite grows by repeats."""
    names = ("tuner", "random", "scripted")[:agents]
    before, after = (plan(suite(tmp_path, *names, repeats=number)) for number in (repeats, repeats + more))
    parts = [runs_of_shard(before, Shard.parse(f"{number}/{count}")) for number in range(1, count + 1)]

    assert sorted(run.number for part in parts for run in part) == [run.number for run in before]
    assert shard_numbers(after, count)[: len(before)] == shard_numbers(before, count)


@pytest.mark.parametrize("text", ["", "0/4", "5/4", "1", "1/0", "a/b", "-1/4", "1/4/4", "1/100000"])
def test_invalid_shards(text: str) -> None:
    """A shard that there is none of is refused."""
    with pytest.raises(UsageError, match="I/N"):
        Shard.parse(text)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place where two shards were played under users of their own, and the suite without shards."""
    place = tmp_path_factory.mktemp("shards")
    secret = shared_secret(place)
    play_shards(place, TINY, 2, secret)
    play_whole(place, TINY, secret)
    return place


@pytest.fixture
def place(played: Path, tmp_path: Path) -> Path:
    """Return a copy of that place."""
    shutil.copytree(played, tmp_path / "place", symlinks=True)
    return tmp_path / "place"


def test_shards_and_a_secret_handed_on(place: Path) -> None:
    """Two shards under users of their own play the same runs as the whole suite, and are brought home verified."""
    found = gathered(place)
    again = gathered(place)
    key = json.loads((place / "smoke.secret").read_text(encoding="utf-8"))["secret"].encode()
    holding = [file for file in place.rglob("*") if file.is_file() and key in file.read_bytes()]

    assert (found.ok, again.ok, len(found.results)) == (True, True, 2)
    assert contents(found.directory) == contents(place / "whole")
    assert sorted({file.relative_to(place).parts[1:2] for file in holding}) == [(), ("state",)]
    with machine(place / "home"):
        assert all(finding.ok for root in find_runs(found.directory) for finding in verify.findings(root))
        assert all(is_own(read_run(root)) for root in find_runs(found.directory))
    with machine(place / "machine-1"):
        assert all(finding.ok for root in find_runs(place / "machine-2") for finding in verify.findings(root))


@pytest.mark.nightly
def test_four_shards_of_a_whole_comparison(tmp_path: Path, shell: Shell) -> None:
    """Four shards, one of them killed and begun again, and the suite without shards: the same runs and tables."""
    secret = shared_secret(tmp_path)
    killed = next(
        program
        for program in (shard_program(tmp_path, WHOLE, number, 4) for number in range(1, 5))
        if any("evolver" in run.entry for run in _planned(program))
    )
    with pytest.MonkeyPatch.context() as halting, machine(killed.runs.parent, secret):
        halting.setenv(HALT, "1")
        code = killed.interrupted(partial(_evolver_halts, killed), signal.SIGKILL)
    play_shards(tmp_path, WHOLE, 4, secret)
    whole = play_whole(tmp_path, WHOLE, secret)
    found = gathered(tmp_path)

    assert code == -signal.SIGKILL
    assert (found.ok, len(found.results)) == (True, 8)
    assert contents(found.directory) == contents(whole)
    tables = [shell.json("leaderboard", directory) for directory in (found.directory, whole)]
    assert _scores(tables[0]) == _scores(tables[1])


def _planned(program: Program) -> list[Any]:
    agents = [{"name": "tuner"}, {"name": "players:make_evolver"}]
    numbers = {"repeats": 2, "budget": 6, "validation": 1, "held_out": 2}
    whole = load_suite("smoke", {"agents": agents, "environments": ["cartpole", "pendulum"], **numbers})
    return list(runs_of_shard(plan(whole), Shard.parse(program.arguments[-1])))


def _evolver_halts(program: Program) -> bool:
    files = program.directory.glob("*evolver*/*/*/journal.jsonl")
    return any(file.read_bytes().count(b"submission_published") >= EVOLVER_HALTS_AFTER for file in files)


def _scores(tables: Any) -> Any:
    """Return a leaderboard without the time that its runs took, and their paths."""
    if isinstance(tables, dict):
        return {name: _scores(item) for name, item in tables.items() if name not in {"wall_seconds", "runs"}}
    return [_scores(item) for item in tables] if isinstance(tables, list) else tables


def test_a_shard_that_is_missing(place: Path) -> None:
    """A run that no shard has finished is named, with its shard; the others are at home."""
    (run,) = find_runs(place / "machine-1")
    shutil.rmtree(run)
    (part,) = (found := gathered(place)).missing

    assert (found.ok, found.problems, len(list(find_runs(found.directory)))) == (False, (), 1)
    assert (len(part.runs), part.shard) == (1, Shard(1, 2))
    assert part.command == ""


def test_a_changed_run_stays_out(place: Path) -> None:
    """A run that does not verify is named, and not brought home."""
    (run,) = find_runs(place / "machine-1")
    (policy,) = RunPaths(run).checkpoints.rglob("policy.py")
    policy.chmod(0o600)
    policy.write_bytes(b"changed")
    (problem,) = (found := gathered(place)).problems

    assert str(run) in problem
    assert "checkpoint" in problem
    assert len(list(find_runs(found.directory))) == 1


def test_a_run_without_its_hidden_episodes_stays_out(place: Path) -> None:
    """Returns that no file stands for are not taken: nobody plays them again when shards are gathered."""
    (run,) = find_runs(place / "machine-1")
    shutil.rmtree(RunPaths(run).evaluation)
    (problem,) = (found := gathered(place)).problems

    assert str(run) in problem
    assert "evaluation" in problem
    assert len(list(find_runs(found.directory))) == 1


def test_a_run_of_another_experiment_stays_out(place: Path) -> None:
    """A run of the same suite by another secret, in the very folder of the one that it would stand for, is named."""
    program = shard_program(place / "elsewhere", TINY, 1, 2)
    with machine(program.runs.parent, shared_secret(place / "elsewhere")):
        code, _, complaints = program.played()
    assert code == 0, complaints
    (foreign,) = find_runs(program.directory)
    (own,) = find_runs(place / "machine-1")
    assert foreign.parts[-3:-1] == own.parts[-3:-1]
    shutil.copytree(foreign, own.with_name(foreign.name))
    shutil.rmtree(own)
    found = gathered(place)

    assert (len(found.missing), [foreign.name in problem for problem in found.problems]) == (1, [True])
    assert foreign.name not in {root.name for root in find_runs(found.directory)}


def test_shards_come_together_in_any_order(place: Path) -> None:
    """Shards that are gathered in another order, or one after another, make the same suite."""
    first, second = sorted(place.glob("machine-*"))
    orders = {"forwards": [[first, second]], "backwards": [[second, first]], "apart": [[second], [first, second]]}
    with machine(place / "home"):
        found = {name: [gather(each, place / "home" / name) for each in order] for name, order in orders.items()}
    made = [contents(parts[-1].directory) for parts in found.values()]

    assert [part.ok for parts in found.values() for part in parts] == [True, True, False, True]
    assert made == [made[0]] * 3
    assert len(made[0]) == 2


def test_a_copy_is_not_played_here(place: Path) -> None:
    """What is gathered is verified and no more: nothing that it names is trusted as what this user played."""
    found = gathered(place)
    with machine(place / "home"):
        roots = list(find_runs(found.directory))
        states = {look_at_run(root).state for root in roots}
        own = [is_own_run(root) for root in roots]
        failed = [finding.name for root in roots for finding in findings(root) if not finding.ok]

    assert found.ok
    assert (states, own, failed) == ({RecordState.VERIFIED}, [False, False], [])


def test_a_shard_s_file_is_no_command_of_ours(place: Path) -> None:
    """What a lock file from elsewhere holds is a command to type only if no word of it means anything to a shell."""
    (run,) = find_runs(place / "machine-1")
    shutil.rmtree(run)
    for lock in place.glob("machine-*/**/*.lock"):
        lock.write_text("evopolicygym suite smoke; touch owned | sh --shard 1/2\n", encoding="utf-8")
    (part,) = gathered(place).missing

    assert (part.shard, part.command) == (Shard(1, 2), "")


def test_a_run_that_was_played_twice(place: Path) -> None:
    """Of a run that was played twice neither is chosen: both are named, and the same record twice is one."""
    (run,) = find_runs(place / "machine-1")
    (second,) = (root for root in find_runs(place / "whole") if root.parts[-3:-1] == run.parts[-3:-1])
    shutil.copytree(run, place / "machine-2" / "runs" / "smoke" / Path(*run.parts[-3:]))
    assert gathered(place).ok

    shutil.copytree(second, run.with_name(second.name))
    (problem,) = gathered(place).problems
    assert all(name in problem for name in (run.name, second.name))


def test_shards_of_two_suites(place: Path) -> None:
    """Shards with another budget, or another secret, are no parts of one suite."""
    document = place / "machine-2" / "runs" / "smoke" / SUITE_FILE
    text = document.read_text(encoding="utf-8")
    document.write_text(text.replace('"budget": 2', '"budget": 3'), encoding="utf-8")
    with pytest.raises(UsageError, match="budget"):
        gathered(place)
    document.write_text(text, encoding="utf-8")
    document.with_name(EXPERIMENT_FILE).write_text('{"experiment": "another"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="2 experiments"):
        gathered(place)
    with pytest.raises(UsageError, match="No suite"):
        gather([place / "machine-1" / "state"], place / "runs")


def test_secrets_that_are_refused(tmp_path: Path) -> None:
    """A text that is no secret, another experiment's, or another than the runs were played with begins nothing."""
    with state_kept_in(tmp_path / "home"):
        text = share_secret(tmp_path / "runs", "smoke")
    document = json.loads(text)
    wrong = [
        *("", "no", "[]", "{}"),
        *(json.dumps({**document, **change}) for change in ({"name": "core16"}, {"secret": "00"}, {"seed_bits": 5})),
        json.dumps({**document, "experiment": "../up"}),
    ]
    with state_kept_in(tmp_path / "node"):
        assert not accept_secret(tmp_path / "node-runs", "smoke", {})
        for given in wrong[1:]:
            variables = {SECRET_VARIABLE: given}
            with pytest.raises(UsageError, match="Invalid secret"):
                accept_secret(tmp_path / "node-runs", "smoke", variables)
            assert variables == {}
        with pytest.raises(UsageError, match=SECRET_FILE_VARIABLE):
            accept_secret(tmp_path / "node-runs", "smoke", {SECRET_FILE_VARIABLE: str(tmp_path / "nowhere")})
        assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "runs"]

        assert accept_secret(tmp_path / "node-runs", "smoke", {SECRET_VARIABLE: text})
        assert begin(tmp_path / "node-runs", "smoke").secret == bytes.fromhex(document["secret"])
        begin(tmp_path / "other-runs", "smoke")
        with pytest.raises(UsageError, match="another experiment"):
            accept_secret(tmp_path / "other-runs", "smoke", {SECRET_VARIABLE: text})
        changed = json.dumps({**document, "secret": "0" * 64})
        with pytest.raises(RecordError):
            accept_secret(tmp_path / "node-runs", "smoke", {SECRET_VARIABLE: changed})


def test_a_shard_without_a_secret(tmp_path: Path) -> None:
    """A shard that would draw cases of its own is refused before anything is written."""
    asked = suite(tmp_path / "runs", "random")
    config, planned = prepare_suite(asked, print, Shard(1, 2))
    with pytest.raises(UsageError, match=SECRET_FILE_VARIABLE):
        play_suite(config, planned, lambda _results: ExitStack(), Shard(1, 2))  # type: ignore[arg-type, return-value]

    assert not (tmp_path / "runs").exists()


def test_locks_of_shards(tmp_path: Path) -> None:
    """Shards of one number lie in one directory at the same time, each once; the whole and other parts stay out."""
    asked = suite(tmp_path, "random")
    with suite_lock(asked, Shard(1, 3)), suite_lock(asked, Shard(2, 3)):
        for other in (Shard(1, 3), Shard(1, 2), None):
            with pytest.raises(RecordError, match="is being played"), suite_lock(asked, other):
                pass
        with pytest.raises(UsageError, match="budget"), suite_lock(suite(tmp_path, "random", budget=9), Shard(3, 3)):
            pass
    with suite_lock(asked), pytest.raises(RecordError, match="is being played"), suite_lock(asked, Shard(1, 3)):
        pass
    with suite_lock(asked, Shard(1, 2)):
        assert (tmp_path / "smoke" / "suite-2-of-3.lock").read_bytes() == b""


def test_the_file_of_a_secret(tmp_path: Path, shell: Shell) -> None:
    """The file that hands a secret out is for its user alone, and none that exists is overwritten."""
    file = tmp_path / "smoke.secret"
    shell.printed("suites", "secret", "smoke", "-o", file, "--runs", tmp_path / "runs")
    mode = stat.S_IMODE(file.stat().st_mode)
    text = file.read_bytes()
    left = shell("suites", "secret", "smoke", "-o", file, "--runs", tmp_path / "runs")

    assert (mode, json.loads(text)["name"]) == (0o600, "smoke")
    assert left.code != 0
    assert file.read_bytes() == text
