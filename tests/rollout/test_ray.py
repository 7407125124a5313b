"""Rollouts on a Ray cluster: two real nodes give what one machine gives, also when one of them is torn away."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.checks.executor import check
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import NodeError, UsageError
from evopolicygym.core.event import EpisodePlayed, EpisodeRepeated, Event
from evopolicygym.core.rollout import Rollout
from evopolicygym.core.run import RunState
from evopolicygym.records.paths import RunPaths
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.replay import ReplayOptions, replay
from evopolicygym.runs.run import resume
from evopolicygym.specs import catalog
from playground import ROOMY, Playground, policy
from ray_clusters import TwoNodes, two_nodes
from sameness import feedback, strays, told
from whole_runs import Told, config, events, played, state_kept_in

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves sockets and files to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
HELD_OUT = 12


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    """Return a cluster of two nodes."""
    with two_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Have the secret of one experiment for all runs of this file."""
    place = tmp_path_factory.mktemp("home")
    with state_kept_in(place / "state"):
        yield place


@pytest.fixture(scope="module")
def at_home(home: Path) -> Told:
    """Return a run of the tuner, played by this machine alone."""
    return played(tuned(home))


@pytest.fixture(autouse=True)
def _same_secret(home: Path) -> Iterator[None]:
    with state_kept_in(home / "state"):
        yield


def tuned(home: Path, **changes: Any) -> RunConfig:
    """Return a small run of the tuner on cartpole."""
    plain = config(home / "runs", budget=8, agent="tuner")
    return replace(plain, agent=AgentConfig("tuner"), task=replace(plain.task, held_out_cases=HELD_OUT), **changes)


def on(nodes: TwoNodes, home: Path) -> RunConfig:
    return tuned(home, workers=None, executor="ray", executor_address=nodes.address)


def executor_on(nodes: TwoNodes, place: Path) -> Any:
    spec = catalog.load("cartpole")
    return EXECUTORS.load("ray")(
        ExecutorConfig(spec, ROOMY, "auto", place / "scratch", place / "log", address=nodes.address)
    )


def evidence(paths: RunPaths) -> dict[str, bytes]:
    """Return every file of the hidden episodes."""
    found = (path for path in paths.evaluation.rglob("*") if path.is_file())
    return {str(path.relative_to(paths.evaluation)): path.read_bytes() for path in found}


def assert_as_at_home(run: Told, at_home: Told) -> None:
    assert told(run.state) == told(at_home.state)
    assert evidence(run.paths) == evidence(at_home.paths)
    assert feedback(run.paths) == feedback(at_home.paths)
    assert strays(run.paths.root) == []


def test_a_whole_run_on_two_nodes_is_the_run_of_one_machine(nodes: TwoNodes, home: Path, at_home: Told) -> None:
    """Submissions, selection, held-out returns and all files are the same, and the record names no executor."""
    run = played(on(nodes, home))

    assert_as_at_home(run, at_home)
    assert nodes.left() == []
    assert "ray" not in run.paths.journal.read_text().replace("array", "")
    assert nodes.address not in run.paths.document.read_text()


def test_a_node_torn_away_in_held_out_changes_nothing(nodes: TwoNodes, home: Path, at_home: Told) -> None:
    """What a lost node was playing is played on the other, and nobody is blamed for it in the record."""
    torn: list[int] = []
    doomed = nodes.add()

    def tear(event: Event, _state: RunState) -> None:
        if isinstance(event, EpisodePlayed) and event.split is Split.HELD_OUT and not torn:
            torn.append(event.position)
            nodes.tear(doomed)

    run = played(on(nodes, home), tear)

    assert torn
    assert_as_at_home(run, at_home)
    assert [one for one in events(run.paths) if isinstance(one, EpisodeRepeated)] == []
    assert "was lost" in run.paths.simulator_log.read_text()


def test_a_run_is_taken_up_on_another_executor(nodes: TwoNodes, home: Path, at_home: Told) -> None:
    """A run that was interrupted on a cluster goes on at home, is replayed on the cluster, and left nothing there."""
    seen: list[RunPaths] = []

    def interrupt(event: Event, _state: RunState) -> None:
        if isinstance(event, EpisodePlayed) and event.split is Split.HELD_OUT and event.position > 2:
            raise KeyboardInterrupt

    before = set(home.rglob("journal.jsonl"))
    with pytest.raises(KeyboardInterrupt):
        played(on(nodes, home), interrupt)
    (root,) = {path.parent for path in set(home.rglob("journal.jsonl")) - before}
    assert nodes.left() == []
    state = resume(root, 1, lambda paths, _state: seen.append(paths), lambda _event, _state: None)

    assert_as_at_home(Told(seen[0], state), at_home)
    assert all(one.same for one in replay(root, ReplayOptions(executor="ray", address=nodes.address)))


def test_a_node_with_other_versions_is_refused(
    nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node on which another gymnasium is installed is named with what differs, and nothing is played on it."""
    monkeypatch.setattr("evopolicygym.rollout.executors.ray.STARTUP_S", 120.0)  # on a busy machine it is late
    installed = tmp_path / "gymnasium-9.9.9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: gymnasium\nVersion: 9.9.9\n")
    node = nodes.add(str(tmp_path))
    try:
        with pytest.raises(NodeError, match=r"gymnasium 9\.9\.9.*1\.3"):
            executor_on(nodes, tmp_path)
    finally:
        nodes.tear(node)

    assert nodes.left() == []


def test_actors_that_are_killed_cost_nothing(nodes: TwoNodes, tmp_path: Path) -> None:
    """An actor that is killed in the middle is replaced; its case is played again, with the same files."""
    with closing(executor_on(nodes, tmp_path)) as executor:
        ground = Playground(executor, catalog.load("cartpole"), tmp_path)
        text = policy(act="time.sleep(0.01)\nreturn int(obs[2] + obs[3] > 0)")
        whole = ground.play(text, *range(6))
        killed = {seat.info.process: seat.info.core for seat in executor.seats}
        jobs, ended = ground.jobs(*range(6)), {}
        rollout = Rollout(ground.checkpoint(text), ground.context, jobs)
        for _, job, episode in executor.play([rollout], lambda _rollout, _job, why: ground.repeated.append(why)):
            if not ended:
                for process in killed:
                    os.kill(process, 9)
            ended[job.position] = episode
        again = {seat.info.process for seat in executor.seats}

        cores = [core for core in killed.values() if core is not None]  # None where another run here has taken all

        assert len(cores) == len(set(cores))
        assert ground.repeated == []
        assert again.isdisjoint(killed)
        for job, one in zip(jobs, whole, strict=True):
            assert job.directory is not None
            assert one.episode.timeless == ended[job.position].timeless
            assert one.read("trajectory.jsonl") == (job.directory / "trajectory.jsonl").read_text()
    assert nodes.left() == []


def test_nobody_left_to_play(nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no node has a free processor in time, the error says which nodes there are, and what waits."""
    import ray

    class Sleeper:  # in here, so that it is sent as it is: nodes can't import tests
        def here(self) -> bool:
            return True

    monkeypatch.setattr("evopolicygym.rollout.executors.ray.NO_WORKER_TIMEOUT_S", 3.0)
    ray.init(address=nodes.address, log_to_driver=False)
    try:
        busy = ray.remote(num_cpus=1)(Sleeper)
        holders = [busy.remote() for _ in range(2)]
        assert ray.get([one.here.remote() for one in holders]) == [True, True]
        with pytest.raises(NodeError, match=r"3 s.*[23] workers"):
            executor_on(nodes, tmp_path)
        assert ray.is_initialized()  # whose connection it is, ends it
    finally:
        ray.shutdown()


def test_an_executor_on_a_cluster_is_found_to_play_as_this_machine_does(nodes: TwoNodes) -> None:
    """The check of an executor finds nothing to complain of in two nodes."""
    findings = list(check("ray", nodes.address, ("cartpole", "pendulum")))

    assert [one for one in findings if not one.ok] == []
    assert len(findings) == 14


@pytest.mark.parametrize("address", ["nonsense", "host:port", "ray://", ":6379"])
def test_an_address_that_is_none(address: str, tmp_path: Path) -> None:
    """What is no address is refused with the forms that would do."""
    pytest.importorskip("ray", reason="ray is not installed")
    told = ExecutorConfig(catalog.load("cartpole"), ROOMY, "auto", tmp_path / "a", tmp_path / "b", address=address)
    with pytest.raises(UsageError, match=r"host:port, ray://host:port or auto"):
        EXECUTORS.load("ray")(told)


def test_an_address_where_nobody_answers(tmp_path: Path) -> None:
    """An address without a cluster is told at once, not after Ray's minutes."""
    pytest.importorskip("ray", reason="ray is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    began, spec = time.monotonic(), catalog.load("cartpole")
    with pytest.raises(UsageError, match=f"127.0.0.1:{port}"):
        EXECUTORS.load("ray")(
            ExecutorConfig(spec, ROOMY, "auto", tmp_path / "a", tmp_path / "b", address=f"127.0.0.1:{port}")
        )

    assert time.monotonic() - began < 60
