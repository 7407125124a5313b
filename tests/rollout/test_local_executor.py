"""The executor of this machine: what it keeps, and what it gives back."""

import socket
from pathlib import Path

import pytest

from evopolicygym.core.task import Limits
from evopolicygym.rollout.executor import Claim, ExecutorConfig
from evopolicygym.rollout.executors import local
from evopolicygym.specs import catalog


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
