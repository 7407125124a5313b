"""A real Ray cluster for tests: two nodes of one processor each, on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

STORE = 100_000_000
"""Bytes of each node's object store, about the least that Ray takes."""


@dataclass(frozen=True, slots=True)
class TwoNodes:
    """A cluster that nodes can be added to and torn from."""

    cluster: Any
    temporary: Path
    """The nodes' directory for temporary files."""

    @property
    def address(self) -> str:
        """Where drivers find it."""
        return str(self.cluster.address)

    def add(self, python_path: str = "", data_home: Path | None = None) -> Any:
        """Start one more node, which may see other packages than we do, and look elsewhere for packs."""
        paths = [python_path, os.environ.get("PYTHONPATH", "")]
        variables = {"TMPDIR": str(self.temporary), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        variables |= {"XDG_DATA_HOME": str(data_home)} if data_home else {}
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE, env_vars=variables, include_dashboard=False)

    def tear(self, node: Any) -> None:
        """End a node as a power cut would."""
        self.cluster.remove_node(node, allow_graceful=False)

    def left(self) -> list[str]:
        """Return what nodes left in their directory for temporary files."""
        return sorted(path.name for path in self.temporary.glob("*evopolicygym*"))


@contextmanager
def two_nodes(temporary: Path) -> Iterator[TwoNodes]:
    """Start a cluster; skip the test where Ray is not installed."""
    utilities = pytest.importorskip("ray.cluster_utils", reason="ray is not installed: pip install evopolicygym[ray]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        nodes = TwoNodes(utilities.Cluster(), temporary)
        try:
            nodes.add()
            nodes.add()
            yield nodes
        finally:
            nodes.cluster.shutdown()
