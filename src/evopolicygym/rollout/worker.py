"""A worker: a process on one core that owns an environment for one episode at a time, and a zygote for its policies.

Started as ``python -P -m evopolicygym.rollout.worker DESCRIPTOR``; obeys its executor over one connection, whose
messages are pickled words of ours: both ends are trusted, and nothing of an agent's is ever in them but paths.
"""

import gc
import os
import select
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.core.interface import BoundInterface, draw_interface
from evopolicygym.core.rollout import Episode, ExecutorInfo, Trial
from evopolicygym.core.spaces import to_schema
from evopolicygym.core.submission import LoadError
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.messages import Check, Load, Play, Reply, Request, WorkerConfig, fault_of
from evopolicygym.rollout.policy_process import PolicyFailed, PolicyProcess, ignore_broken_pipes, load_error
from evopolicygym.rollout.watchdog import Watchdog
from evopolicygym.rollout.zygote import LIGHT, SCIENTIFIC, Zygote, create_worker_dir, install_checkpoint, uses_scipy
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.limits import bound_memory
from evopolicygym.sandbox.overlays import remove_layers


class Worker:
    """Plays what it is given, one episode at a time."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._watchdog = Watchdog(config.hang_s)
        self._chosen = choose(config.isolation)
        self._ground = create_worker_dir(config.root, config.limits, config.library)
        self._zygotes: dict[tuple[str, ...], Zygote] = {}
        self._zygote = self._zygote_for(LIGHT)
        """The one that the present checkpoint's policies are forked from."""
        self._laid: Path | None = None
        self._interface: BoundInterface | None = None
        """None for the standard one, and until it is drawn from the spaces."""

    def describe(self) -> ExecutorInfo:
        """Make the environment once and say what was found."""
        from evopolicygym.environments.environment import Environment
        from evopolicygym.environments.simulator_code import simulator_code
        from evopolicygym.environments.versions import versions

        spec = self._config.spec
        self._watchdog.reset()
        environment = Environment(spec)
        environment.reset(0)
        schemas = to_schema(environment.observation_space), to_schema(environment.action_space)
        if drawn := self._config.interface:
            document = draw_interface(drawn.key, drawn.level, *schemas, spec.reward_components)
            self._interface = shown = BoundInterface.of(document)
            schemas = to_schema(shown.observation_space), to_schema(shown.action_space)
        seed_bits = environment.seed_bits()
        environment.close()
        self._zygote.ready()
        self._watchdog.disarm()
        gc.collect()
        gc.freeze()  # so that what is collected after each episode is what the episode left
        found = {
            **self._chosen.findings,
            **self._config.findings,
            **arithmetic.findings(),
            "addresses": self._zygote.addresses,
            "case seeds": f"the simulator takes {seed_bits} bits of a case's seed",
        }
        if (policies := self._ground.library.python.version) != f"{sys.version_info.major}.{sys.version_info.minor}":
            found["python"] = f"policies run on Python {policies}"
        landlock = f"ABI {self._zygote.landlock}" if self._zygote.landlock else "not in this kernel"
        return ExecutorInfo(
            observation_schema=schemas[0],
            action_schema=schemas[1],
            versions={**versions(spec), **self._config.policy_versions},
            isolation=self._chosen.isolation,
            findings={**found, "landlock": landlock},
            allowed_imports=self._ground.library.versions,
            simulator_code=simulator_code(spec),
            interface=self._interface.document if self._interface else {},
        )

    def answer(self, request: Request) -> Reply:
        """Do what is asked; a policy's failure is part of the answer, ours is a ``Fault``."""
        self._watchdog.reset()
        try:
            self._lay(request.checkpoint)
            match request:
                case Load():
                    return self._load(request)
                case Check():
                    return self._check(request)
                case Play():
                    return self._play(request)
        except Exception as error:  # noqa: BLE001 - whatever a simulator raises
            with suppress(OSError):  # the log may lie on the disk that is full
                traceback.print_exc()
            return fault_of(error)
        finally:
            gc.collect()  # simulators leave cycles, worth megabytes where they draw pictures
            self._watchdog.disarm()

    def close(self) -> None:
        """Kill the sandboxes."""
        for zygote in self._zygotes.values():
            zygote.close()

    def _lay(self, checkpoint: Path) -> None:
        if checkpoint != self._laid:
            self._laid = None
            install_checkpoint(self._ground, checkpoint)
            for zygote in self._zygotes.values():
                zygote.checkpoint_is_new = True
            self._zygote = self._zygote_for(SCIENTIFIC if uses_scipy(self._ground.policy) else LIGHT)
            self._laid = checkpoint

    def _zygote_for(self, preload: tuple[str, ...]) -> Zygote:
        if preload not in self._zygotes:
            self._zygotes[preload] = Zygote(self._chosen.backend, self._ground, preload, pinned=self._config.pinned)
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

        config = self._config
        if request.without_policy:
            return play_without_policy(config.spec, request.context, self._watchdog, request.job, self._interface)
        return play_episode(
            *(config.spec, self._zygote, request.context, config.limits, self._watchdog, request.job, self._interface)
        )


def main(descriptor: int) -> None:
    """Serve one executor until it hangs up."""
    ignore_broken_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    threading.Thread(target=_die_with, args=(descriptor,), daemon=True).start()
    config: WorkerConfig = connection.recv()
    if config.core is not None:
        os.sched_setaffinity(0, {config.core})
    if config.spec.pack:
        bound_memory(config.limits.memory_mb)
    os.chdir(config.root.parent)
    worker = None
    try:
        worker = Worker(config)
        connection.send(worker.describe())
        while (request := connection.recv()) is not None:
            connection.send(worker.answer(request))
    except EOFError:
        pass
    except Exception as error:  # noqa: BLE001 - sent to the executor, which names it
        if not isinstance(error, UsageError):  # whose words are all that a person needs
            traceback.print_exc()
        connection.send(fault_of(error))
    finally:
        if worker:
            worker.close()


def _die_with(descriptor: int) -> None:
    """End this process when the other end hangs up, even in the middle of an episode; the sandbox dies with it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    poll.poll()
    remove_layers()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
