"""Steps of random actions with a digest of all that they returned, here and in other processes.

As a program it reads ``{"spec": …, "path": …, "seeds": …, "steps": …, "seconds": …, "chance": …}`` from standard input
and prints a digest a seed. Once ``seconds`` are over it begins no further episode; ``chance`` seeds the generators of
the process.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.packs.installation import command
from evopolicygym.specs import catalog

if TYPE_CHECKING:
    from hashlib import _Hash

REPETITIONS, PROCESSES, AT_ONCE = 20, 4, 2
"""How often an episode is repeated, in how many processes, of which how many play side by side."""
_TRACE_TIMEOUT_S = 120
_SEEDS, _SHORT = (0, 1, 2, 3), 50
"""Seeds and most steps of the episodes that ``probe`` plays."""
_ACTIONS = 20260702
"""Seed of the actions: they are the same in all cases, so that episodes differ by their case only."""


class Step(NamedTuple):
    """A step of an episode, or its reset, whose action is None."""

    observation: Any
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    digest: bytes
    """Of everything up to this step, ``info`` excepted."""


def random_steps(environment: Environment, seed: int) -> Iterator[Step]:
    """Play the episode of a seed with random actions; yield its reset and its steps."""
    observation, info = environment.restart(seed)
    digest = _chain(b"", observation)
    yield Step(observation, None, 0.0, terminated=False, truncated=False, info=info, digest=digest)
    draw, generator, ended = environment.action_sampler(), np.random.default_rng(_ACTIONS), False
    while not ended:
        action = draw(generator)
        observation, reward, terminated, truncated, info = environment.step(action)
        digest = _chain(digest, (observation, reward.hex(), terminated, truncated))
        yield Step(observation, action, reward, terminated, truncated, info, digest)
        ended = terminated or truncated


def trace(spec: EnvironmentSpec, seed: int, steps: int) -> str:
    """Return a digest of the first ``steps`` random actions of a seed's episode, on a new environment."""
    digest = b""
    with closing(Environment(spec)) as environment:
        for step in islice(random_steps(environment, seed), steps + 1):
            digest = step.digest
    return digest.hex()


def repetitions(spec: EnvironmentSpec, seed: int, steps: int, seconds: float) -> list[str]:
    """Return that digest from each of twenty repetitions in four processes.

    The processes have other hash seeds, and other seeds of Python's and numpy's global generators. Of each, at least
    one digest is returned; after ``seconds`` it begins no further repetition. Raises ``ChildProcessError`` if one
    fails.
    """
    seeds = [seed] * (REPETITIONS // PROCESSES)

    def play(chance: int) -> list[str]:
        return _digests_of(_start(spec, seeds, steps, chance, seconds))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [digest for digests in pool.map(play, range(1, PROCESSES + 1)) for digest in digests]


@dataclass(frozen=True, slots=True)
class Probe:
    """What a few short episodes of random actions show of an environment."""

    repeats: bool
    """Whether two processes, which have different hash seeds, played them alike."""
    cases_differ: bool
    """Whether the same actions gave other episodes for other seeds."""


def probe(spec: EnvironmentSpec) -> Probe | None:
    """Return what two processes, side by side, find of an environment; None if one of them can't play it.

    Raises no exception of the simulator: a run that is played in it will tell.
    """
    processes = [_start(spec, _SEEDS, _SHORT, chance) for chance in (1, 2)]
    try:
        first, second = map(_digests_of, processes)
    except (ChildProcessError, subprocess.TimeoutExpired):
        return None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return Probe(first == second, len(set(first)) > 1)


def _start(
    spec: EnvironmentSpec, seeds: Sequence[int], steps: int, chance: int, seconds: float = _TRACE_TIMEOUT_S
) -> "subprocess.Popen[bytes]":
    """Start the program; ``chance`` is the hash seed of its process, too."""
    path = [] if spec.pack else sys.path
    limits = {"steps": steps, "seconds": seconds, "chance": chance}
    request = {"spec": asdict(spec), "path": path, "seeds": seeds, **limits}
    with TemporaryFile() as stdin:
        stdin.write(json.dumps(request).encode())
        stdin.seek(0)
        return subprocess.Popen(
            command(spec.pack, "evopolicygym.environments.trace"),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": str(chance)},
        )


def _digests_of(process: "subprocess.Popen[bytes]") -> list[str]:
    out, errors = process.communicate(timeout=_TRACE_TIMEOUT_S)
    if process.returncode != 0:
        raise ChildProcessError(errors.decode(errors="replace").strip().rpartition("\n")[2])
    return out.decode().split()[-1].split(",")


def _chain(before: bytes, value: Any) -> bytes:  # noqa: ANN401 - a value of any space
    digest = hashlib.sha256(before)
    _absorb(digest, value)
    return digest.digest()


def _absorb(digest: "_Hash", value: Any) -> None:  # noqa: ANN401 - a value of any space
    match value:
        case np.ndarray():
            digest.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
        case dict():
            for name in sorted(value):
                _absorb(digest, (name, value[name]))
        case tuple() | list():
            for item in value:
                _absorb(digest, item)
        case _:
            digest.update(f"{value}|".encode())


def _main() -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    name = request["spec"].pop("name")
    spec = catalog.decode(request["spec"], name, "standard input")
    random.seed(request["chance"])
    np.random.seed(request["chance"])  # noqa: NPY002 - simulators that draw from it must not
    digests, end = list[str](), time.monotonic() + request["seconds"]
    for seed in request["seeds"]:
        if not digests or time.monotonic() < end:
            digests.append(trace(spec, seed, request["steps"]))
    sys.stdout.write(f"{','.join(digests)}\n")


if __name__ == "__main__":
    _main()
