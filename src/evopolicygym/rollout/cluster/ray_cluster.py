"""A connection to a Ray cluster: a running one by its address, or a local one that is started."""

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import ray

from evopolicygym.core.errors import NodeError, UsageError

AUTO = "auto"
CLIENT = "ray://"
ANSWERS_S = 5.0
"""Seconds until a cluster's port must accept a connection; Ray itself would try for minutes."""
OBJECT_STORE = 256 << 20
"""Bytes of the object store of a local cluster."""
_lock = threading.Lock()
_users: list[str] = []
"""Addresses of the users of this process's single connection."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the cluster, as Ray knows it."""

    identity: str
    name: str
    """Readable name of the node."""
    processors: int


@contextmanager
def connected(address: str, processors: int | None) -> Iterator[None]:
    """Be connected to a cluster; where the address is empty, one of this machine, with so many processors.

    Raises ``UsageError`` where there is no cluster, ``NodeError`` where it can't be worked with.
    """
    with _lock:
        ours = _open(address, processors)
        _users.append(address)
    try:
        yield
    finally:
        with _lock:
            _users.remove(address)
            if ours is not None:
                _stack.append(ours)
            if not _users:
                _leave()


def machines() -> list[Machine]:
    """Return the nodes that are alive and have processors, in an order that stays."""
    found = [
        Machine(
            item["NodeID"],
            f"{item['NodeManagerHostname']} ({item['NodeManagerAddress']}, node {item['NodeID'][:8]})",
            int(item["Resources"].get("CPU", 0)),
        )
        for item in ray.nodes()
        if item["Alive"]
    ]
    return sorted((item for item in found if item.processors), key=lambda item: item.identity)


_stack: list[str] = []
"""Directories of clusters of our own, to be removed when nobody uses them; empty names for others'."""


def _open(address: str, processors: int | None) -> str | None:
    """Connect, unless this process is; return what is to be left in the end, None where somebody else sees to it."""
    if ray.is_initialized():
        if _users and address not in _users:
            raise UsageError(
                f"This process is connected to the Ray cluster {_users[0] or 'of its own'!r} and was asked to use "
                f"{address or 'one of its own'!r}; a process can use one at a time."
            )
        return None
    with _signals_kept():
        return _joined(address) if address else _started(processors)


def _joined(address: str) -> str:
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if address != AUTO:
        if not host or not port.isdigit():
            raise UsageError(
                f"A Ray cluster's address is host:port, ray://host:port or {AUTO}, not {address!r}; leave it out for "
                f"a cluster of this machine."
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWERS_S).close()
        except OSError as error:
            raise UsageError(
                f"Nothing answers at {address}: {error}. Start a cluster with: ray start --head --port={port}"
            ) from error
    try:
        _init(address=address)
    except ConnectionError as error:
        raise UsageError(f"There is no Ray cluster at {address!r}: {error}") from error
    except (RuntimeError, ValueError) as error:  # such as another version of Python or Ray, or a part not installed
        raise NodeError(f"The Ray cluster at {address!r} can't be used from here: {error}") from error
    return ""


def _started(processors: int | None) -> str:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anyone
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray leaves one in the home directory
    place = tempfile.mkdtemp(prefix="evopolicygym-ray-")
    try:
        _init(
            num_cpus=processors or len(os.sched_getaffinity(0)),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _node_ip_address="127.0.0.1",
            _temp_dir=place,
        )
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return place


def _init(**options: Any) -> None:  # noqa: ANN401 - Ray's own
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # without it, Ray warns of what it will do
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)


def _leave() -> None:
    if _stack:
        with _signals_kept():
            ray.shutdown()
        for place in filter(None, _stack):
            shutil.rmtree(place, ignore_errors=True)
        _stack.clear()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep the program's own way to end at SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            with suppress(TypeError):  # a handler that was not set by Python can't be set again
                signal.signal(signal.SIGTERM, before)
