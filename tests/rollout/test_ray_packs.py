"""Packs on a cluster: each node plays on the pack of its own data directory, and who lacks it is said at once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import evopolicygym
import own_pack
from evopolicygym.core.errors import NodeError
from evopolicygym.packs.installation import packs_directory
from evopolicygym.rollout.cluster.node_compatibility import PackState, check_nodes, pack_state
from ray_clusters import TwoNodes, two_nodes

pytestmark = pytest.mark.nightly

OURS = PackState("/data/packs", {"python": "3.11.2", "numpy": "2.0", "gymnasium": "1.3.0", "mine": "1", "pip": "24"})


def test_nodes_that_lack_a_pack_are_named() -> None:
    """All nodes that can't play are named at once, with what each lacks, and what would help."""
    older = PackState("/data/packs", {**(OURS.versions or {}), "mine": "0.9", "pip": "23"})
    nodes = {"a": OURS, "b": PackState("/home/b/packs", None), "c": older}
    with pytest.raises(NodeError) as refusal:
        check_nodes("walks", ["mine"], OURS, nodes)

    assert str(refusal.value).startswith(
        "2 of 3 nodes can't play the pack 'walks' as the driver does: b lacks it (in /home/b/packs); c has other "
        "versions of it: mine 0.9 instead of 1. On such a node, evopolicygym packs install walks"
    )


def test_what_no_number_depends_on_may_differ() -> None:
    """Another version of what a run doesn't record hinders nobody."""
    check_nodes("walks", ["mine"], OURS, {"a": PackState("/elsewhere", {**(OURS.versions or {}), "pip": "23"})})


def test_what_lies_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine looks in its own data directory."""
    before = pack_state(own_pack.NAME)
    own_pack.lay(monkeypatch)
    after = pack_state(own_pack.NAME)

    assert before == PackState(str(packs_directory()), None)
    assert after.versions == {"far-away": "1", "python": sys.version.split()[0]}


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoNodes]:
    """Return a cluster of two nodes that have the tests' own pack."""
    own_pack.lay(monkeypatch)
    (tmp_path / "nodes").mkdir()
    with two_nodes(tmp_path / "nodes") as found:
        yield found


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray leaves sockets and files to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_plays_a_pack(nodes: TwoNodes, tmp_path: Path) -> None:
    """Nodes that have a pack play it; with one that looks elsewhere, nothing is begun, and it is named."""
    asked = {"executor": "ray", "address": nodes.address, "runs": tmp_path / "runs"}
    asked |= {"budget": 2, "validation": 1, "held_out": 2}
    run = evopolicygym.run("Far-v0", "random", **asked)
    nodes.add(data_home=tmp_path / "nowhere")
    with pytest.raises(NodeError, match=r"1 of 3 nodes .*lacks it \(in .*nowhere"):
        evopolicygym.run("Far-v0", "random", **asked)

    assert run.score is not None
    assert len(list(tmp_path.rglob("journal.jsonl"))) == 1
