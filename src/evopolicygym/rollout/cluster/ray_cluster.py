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
def cluster_connection(address: str, processors: int | None) -> Iterator[None]:
    """Connect to a cluster; an empty address starts one on this machine with the given number of processors.

    Raises ``UsageError`` if there is no cluster at the address, ``NodeError`` if it is incompatible.
    """
    with _lock:
        own_directory = _connect(address, processors)
        _users.append(address)
    try:
        yield
    finally:
        with _lock:
            _users.remove(address)
            if own_directory is not None:
                _local_directories.append(own_directory)
            if not _users:
                _disconnect()


def machines() -> list[Machine]:
    """Return the nodes that are alive and have processors, in a stable order."""
    nodes = [
        Machine(
            item["NodeID"],
            f"{item['NodeManagerHostname']} ({item['NodeManagerAddress']}, node {item['NodeID'][:8]})",
            int(item["Resources"].get("CPU", 0)),
        )
        for item in ray.nodes()
        if item["Alive"]
    ]
    return sorted((item for item in nodes if item.processors), key=lambda item: item.identity)


_local_directories: list[str] = []
"""Directories of local clusters, removed after the last user disconnects; empty for clusters that were joined."""


def _connect(address: str, processors: int | None) -> str | None:
    """Connect, unless this process is connected; return the local cluster's directory, None if already connected."""
    if ray.is_initialized():
        if _users and address not in _users:
            raise UsageError(
                f"Invalid cluster address {address or '(a local cluster)'!r}: this process is cluster_connection to "
                f"{_users[0] or 'a local cluster'!r} and can use one cluster at a time."
            )
        return None
    with _keep_signal_handlers():
        return _join(address) if address else _start_local(processors)


def _join(address: str) -> str:
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if address != AUTO:
        if not host or not port.isdigit():
            raise UsageError(
                f"Invalid cluster address {address!r}: expected host:port, ray://host:port or {AUTO}. Leave it out for "
                f"a cluster on this machine."
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


def _start_local(processors: int | None) -> str:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # otherwise Ray writes one into the home directory
    directory = tempfile.mkdtemp(prefix="evopolicygym-ray-")
    try:
        _init(
            num_cpus=processors or len(os.sched_getaffinity(0)),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _node_ip_address="127.0.0.1",
            _temp_dir=directory,
        )
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return directory


def _init(**options: Any) -> None:  # noqa: ANN401 - Ray's own
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # without it, Ray prints a warning
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)


def _disconnect() -> None:
    if _local_directories:
        with _keep_signal_handlers():
            ray.shutdown()
        for directory in filter(None, _local_directories):
            shutil.rmtree(directory, ignore_errors=True)
        _local_directories.clear()


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Restore the program's SIGTERM handler, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            with suppress(TypeError):  # a handler that was not set from Python can't be restored
                signal.signal(signal.SIGTERM, before)
