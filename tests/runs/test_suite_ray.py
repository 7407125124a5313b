"""A suite on a Ray cluster of two real nodes: the scores are those of one machine, also when a node is torn away."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from evopolicygym.core.errors import UsageError
from evopolicygym.runs.suites.suite import plan
from ray_clusters import TwoNodes, two_nodes
from suites import Program, scores, suite, wait_for
from whole_runs import state_kept_in

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves sockets and files to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ASKED = (
    *("--environment", "cartpole", "--environment", "acrobot", "--agent", "tuner", "--agent", "random"),
    *("--budget", "8", "--validation", "4", "--held-out", "16", "--split", "public", "--jobs", "2"),
)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    """Return a cluster of two nodes."""
    with two_nodes(tmp_path) as found:
        yield found


@pytest.mark.nightly
def test_a_suite_on_two_nodes(nodes: TwoNodes, tmp_path: Path) -> None:
    """Two runs at once, each on a node's worker, with a third node torn away meanwhile, end with the same scores."""
    on_nodes = (*ASKED, "--executor", "ray", "--address", nodes.address, "--workers", "1")
    cluster, machine = Program(tmp_path / "cluster", on_nodes), Program(tmp_path / "machine", ASKED)
    doomed = nodes.add()

    def tear() -> None:
        wait_for(lambda: cluster.directory.is_dir() and cluster.journaled() > 10_000, "the first runs' journals")
        nodes.tear(doomed)

    with state_kept_in(tmp_path / "state"):
        tearing = Thread(target=tear)
        tearing.start()
        code, spread, complaints = cluster.played()
        tearing.join()
        _, at_home, _ = machine.played()

    assert code == 0, complaints
    assert len(spread) == 4
    assert scores(spread) == scores(at_home)


def test_runs_at_once_need_a_share(tmp_path: Path) -> None:
    """Several runs at once on a cluster are refused until it is said how many workers are for one."""
    with pytest.raises(UsageError, match="workers"):
        plan(suite(tmp_path, "random", executor="ray", jobs=2))
    assert plan(suite(tmp_path, "random", executor="ray", jobs=2, workers=1))
