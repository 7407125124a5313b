"""The executor of this machine: what it keeps, and what it gives back."""

import math
import socket
from pathlib import Path

import pytest

from evopolicygym.core.task import Limits
from evopolicygym.rollout.executor import Claim, ExecutorConfig
from evopolicygym.rollout.executors import local
from evopolicygym.specs import catalog
from playground import local_executor, one_worker, policy
from simulators import spec


def test_an_executor_that_cannot_start_gives_its_cores_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a worker's log can't be written, claimed cores are free again and the scratch directory is gone."""
    sockets: list[socket.socket] = []

    def claim() -> Claim:
        sockets.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        return Claim(0, sockets[-1])

    monkeypatch.setattr(local, "claim", claim)
    log = tmp_path / "missing" / "log"
    config = ExecutorConfig(catalog.load("cartpole"), Limits(), "auto", tmp_path / "scratch", log, workers=1)

    with pytest.raises(FileNotFoundError):
        local.LocalExecutor(config)

    assert [one.fileno() for one in sockets] == [-1]
    assert not (tmp_path / "scratch").exists()


def test_a_worker_that_keeps_memory_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that keeps memory of its episodes gets a new process; trajectories stay the same."""
    trajectories, processes = [], []
    for growth in (math.inf, 6.0):
        monkeypatch.setattr(local, "GROWTH_EVERY", 1)
        monkeypatch.setattr(local, "MAX_GROWTH_MB", growth)
        root = tmp_path / str(growth)
        root.mkdir()
        with one_worker("none", spec("Keeping"), root) as ground:
            started = ground.executor._workers  # type: ignore[attr-defined]
            played = ground.play(policy(), *range(4))
            processes.append(len(started))
        trajectories.append([episode.episode.trajectory_sha256 for episode in played])
        assert not ground.repeated

    assert trajectories[0] == trajectories[1]
    assert processes[0] == 1 < processes[1]


def test_each_worker_has_a_working_directory_of_its_own(tmp_path: Path) -> None:
    """Simulators that write files into it don't meet the files of another worker's."""
    with local_executor("none", spec("Plain"), tmp_path, workers=2) as ground:
        executor = ground.executor
        assert isinstance(executor, local.LocalExecutor)
        for seat in executor._slots:
            executor._ready(seat)
        places = {Path(f"/proc/{seat.process.pid}/cwd").readlink() for seat in executor._slots}

    assert len(places) == 2
