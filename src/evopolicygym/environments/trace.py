"""Steps of random actions with a digest of all that they returned, here and in another process.

As a program it reads ``{"spec": …, "path": …, "seeds": …, "steps": …}`` from standard input and prints a digest a seed.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
    draw, random, ended = environment.action_sampler(), np.random.default_rng(_ACTIONS), False
    while not ended:
        action = draw(random)
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


def trace_elsewhere(spec: EnvironmentSpec, seed: int, steps: int) -> str:
    """Return the same digest from a separate process with another hash seed.

    Raises ``ChildProcessError`` if that process fails.
    """
    other_hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    return _digests_of(_start(spec, [seed], steps, other_hash_seed))[0]


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
    processes = [_start(spec, _SEEDS, _SHORT, hash_seed) for hash_seed in ("1", "2")]
    try:
        first, second = map(_digests_of, processes)
    except (ChildProcessError, subprocess.TimeoutExpired):
        return None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return Probe(first == second, len(set(first)) > 1)


def _start(spec: EnvironmentSpec, seeds: Sequence[int], steps: int, hash_seed: str) -> "subprocess.Popen[bytes]":
    path = [] if spec.pack else sys.path
    request = {"spec": asdict(spec), "path": path, "seeds": seeds, "steps": steps}
    with TemporaryFile() as stdin:
        stdin.write(json.dumps(request).encode())
        stdin.seek(0)
        return subprocess.Popen(
            command(spec.pack, "evopolicygym.environments.trace"),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
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
    digests = [trace(spec, seed, request["steps"]) for seed in request["seeds"]]
    sys.stdout.write(f"{','.join(digests)}\n")


if __name__ == "__main__":
    _main()
