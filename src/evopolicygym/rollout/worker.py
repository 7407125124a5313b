"""A worker: a process on one core that plays one episode at a time and owns the zygotes of its policies.

It runs as ``python -P -m evopolicygym.rollout.worker DESCRIPTOR`` and serves its executor over one connection. Messages
are pickled: both ends are trusted, and of agents' files the messages contain only paths.
"""

import gc
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import SandboxError, UsageError
from evopolicygym.core.interface import BoundInterface, InterfaceDraw, draw_interface
from evopolicygym.core.rollout import Episode, ExecutorInfo, Trial
from evopolicygym.core.spaces import to_schema
from evopolicygym.core.submission import LoadError
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.messages import Check, Load, Play, Reply, Request, WorkerConfig, fault_of
from evopolicygym.rollout.policy_monitor import Watchdog
from evopolicygym.rollout.policy_process import PolicyFailed, PolicyProcess, ignore_broken_pipes, load_error
from evopolicygym.rollout.zygote import LIGHT, SCIENTIFIC, Zygote, create_worker_dir, install_checkpoint, uses_scipy
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.limits import bound_memory
from evopolicygym.sandbox.overlays import remove_layers, remove_once_abandoned

KEPT_INTERFACES = 256
"""Interfaces that a worker keeps for further jobs."""


class Worker:
    """Plays episodes, one at a time."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._watchdog = Watchdog(config.hang_s)
        self._chosen = choose(config.isolation)
        self._worker_dir = create_worker_dir(config.root, config.limits, config.library, config.in_memory)
        self._zygotes: dict[tuple[str, ...], Zygote] = {}
        self._zygote = self._zygote_for(LIGHT)
        """The zygote of the current checkpoint's policies."""
        self._installed: Path | None = None
        self._interface: BoundInterface | None = None
        """None for the standard interface, and until it is drawn from the spaces."""
        self._schemas: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        """Of observations and actions, as the simulator has them."""
        self._drawn: dict[InterfaceDraw, BoundInterface] = {}
        """The latest interfaces that jobs named."""

    def describe(self) -> ExecutorInfo:
        """Create the environment once; return the findings."""
        from evopolicygym.environments.environment import Environment
        from evopolicygym.environments.versions import simulator_code, versions

        spec = self._config.spec
        self._watchdog.reset()
        environment = Environment(spec)
        environment.reset(0)
        self._schemas = schemas = to_schema(environment.observation_space), to_schema(environment.action_space)
        if draw := self._config.interface:
            self._interface = interface = self._bind(draw)
            schemas = to_schema(interface.observation_space), to_schema(interface.action_space)
        seed_bits = environment.seed_bits()
        environment.close()
        self._zygote.wait_until_ready()
        self._watchdog.disarm()
        gc.collect()
        gc.freeze()  # so that the collection after each episode visits only objects of that episode
        findings = {
            **self._chosen.findings,
            **self._zygote.findings,
            **self._config.findings,
            **arithmetic.findings(),
            "addresses": self._zygote.addresses,
            "case seeds": f"the simulator takes {seed_bits} bits of a case's seed",
        }
        policies = self._worker_dir.library.python.version
        if policies != f"{sys.version_info.major}.{sys.version_info.minor}":
            findings["python"] = f"policies run on Python {policies}"
        landlock = f"ABI {self._zygote.landlock}" if self._zygote.landlock else "not in this kernel"
        return ExecutorInfo(
            observation_schema=schemas[0],
            action_schema=schemas[1],
            versions={**versions(spec), **self._config.policy_versions},
            isolation=self._chosen.isolation,
            findings={**findings, "landlock": landlock},
            allowed_imports=self._worker_dir.library.versions,
            simulator_code=simulator_code(spec),
            interface=self._interface.document if self._interface else {},
        )

    def _bind(self, draw: InterfaceDraw) -> BoundInterface:
        return BoundInterface.of(
            draw_interface(draw.key, draw.level, *self._schemas, self._config.spec.reward_components)
        )

    def _interface_of(self, draw: InterfaceDraw | None) -> BoundInterface | None:
        """Return the interface of a job; the worker's own if the job names none."""
        if draw is None:
            return self._interface
        if draw not in self._drawn:
            if len(self._drawn) == KEPT_INTERFACES:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[draw] = self._bind(draw)
        return self._drawn[draw]

    def answer(self, request: Request) -> Reply:
        """Handle a request; failures of the policy are part of the reply, other errors are a ``Fault``."""
        self._watchdog.reset()
        try:
            self._install(request.checkpoint)
            reply = self._reply_to(request)
            self._zygote.need_files()
        except Exception as error:  # noqa: BLE001 - whatever a simulator raises
            with suppress(OSError):  # the log may be on a full disk
                traceback.print_exc()
            return fault_of(error)
        else:
            return reply
        finally:
            gc.collect()  # simulators leave reference cycles, of megabytes if they render
            self._watchdog.disarm()

    def _reply_to(self, request: Request) -> Reply:
        match request:
            case Load():
                return self._load(request)
            case Check():
                return self._check(request)
            case Play():
                return self._play(request)

    def close(self) -> None:
        """Kill the sandboxes."""
        for zygote in self._zygotes.values():
            zygote.close()

    def _install(self, checkpoint: Path) -> None:
        if checkpoint != self._installed:
            self._installed = None
            install_checkpoint(self._worker_dir, checkpoint)
            for zygote in self._zygotes.values():
                zygote.checkpoint_is_new = True
            self._zygote = self._zygote_for(SCIENTIFIC if uses_scipy(self._worker_dir.policy) else LIGHT)
            self._installed = checkpoint

    def _zygote_for(self, preload: tuple[str, ...]) -> Zygote:
        if preload not in self._zygotes:
            self._zygotes[preload] = Zygote(self._chosen.backend, self._worker_dir, preload, pinned=self._config.pinned)
        return self._zygotes[preload]

    def _load(self, request: Load) -> LoadError | None:
        policy = PolicyProcess(self._zygote, request.context, self._config.limits, self._watchdog)
        try:
            policy.wait_until_loaded()
        except PolicyFailed as failed:
            return load_error(failed)
        finally:
            policy.end()
        return None

    def _check(self, request: Check) -> Trial:
        from evopolicygym.rollout.episode import try_policy

        return try_policy(self._zygote, request.context, self._config.limits, self._watchdog)

    def _play(self, request: Play) -> Episode:
        from evopolicygym.rollout.episode import play_episode, play_without_policy

        config, interface = self._config, self._interface_of(request.job.interface)
        if request.without_policy:
            return play_without_policy(config.spec, request.context, self._watchdog, request.job, interface)
        return play_episode(
            *(config.spec, self._zygote, request.context, config.limits, self._watchdog, request.job, interface)
        )


def main(descriptor: int) -> None:
    """Serve one executor until it closes the connection."""
    ignore_broken_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    executors = list[Path]()
    ending = threading.Thread(target=_exit_on_hangup, args=(descriptor, executors), daemon=True)
    ending.start()
    config: WorkerConfig = connection.recv()
    executors += filter(None, [config.in_memory])
    if config.core is not None:
        os.sched_setaffinity(0, {config.core})
    if config.spec.pack:
        bound_memory(config.limits.memory_mb)
    os.umask(0o022)  # a sandbox's user reads the worker's directory, which lies in a run directory closed to others
    directory = config.root.with_name(f"{config.root.name}-directory")
    directory.mkdir(exist_ok=True)
    os.chdir(directory)  # one of its own, as some simulators fail where another has made its files
    worker, hung_up = None, False
    try:
        worker = Worker(config)
        connection.send(worker.describe())
        while (request := connection.recv()) is not None:
            connection.send(worker.answer(request))
    except EOFError:
        hung_up = True
    except Exception as error:  # noqa: BLE001 - sent to the executor, which raises it
        if not isinstance(error, UsageError | SandboxError):  # whose messages are enough
            traceback.print_exc()
        connection.send(fault_of(error))
    finally:
        if worker:
            worker.close()
    if hung_up:
        ending.join()


def _exit_on_hangup(descriptor: int, executors: Sequence[Path]) -> None:
    """Exit when the executor closes the connection, even during an episode; the sandboxes end with this process.

    If the executor was killed, its directories in memory are removed.
    """
    poll = select.poll()
    poll.register(descriptor, 0)
    poll.poll()
    remove_layers()
    for directory in executors:
        remove_once_abandoned(directory)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
