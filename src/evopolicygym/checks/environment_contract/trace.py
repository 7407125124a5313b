"""A trace: the SHA-256 of what an episode of random actions shows, to tell whether it repeats bit for bit.

Run as a program, it traces in a process of its own: it reads ``{"spec": …, "seed": …, "steps": …}`` from standard input
and prints the digest. What to compare with what is described in ``contract.py``; the digest that a run
records of every episode is not this one.
"""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from evopolicygym.core.spaces import sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.packs.interpreter import command
from evopolicygym.specs import catalog

if TYPE_CHECKING:
    from hashlib import _Hash

_PATIENCE_S = 120


def trace(spec: EnvironmentSpec, seed: int, steps: int) -> str:
    """Play at most ``steps`` random actions, the same for the same seed, on a fresh environment; return the digest."""
    digest = hashlib.sha256()
    environment = Environment(spec)
    try:
        _absorb(digest, environment.reset(seed))
        actions, space = np.random.default_rng(seed), environment.action_space
        for _ in range(steps):
            observation, reward, terminated, truncated, _ = environment.step(sample(space, actions))
            _absorb(digest, (observation, reward.hex(), terminated, truncated))
            if terminated or truncated:
                break
    finally:
        environment.close()
    return digest.hexdigest()


def trace_elsewhere(spec: EnvironmentSpec, seed: int, steps: int) -> str:
    """Return the same digest from a process of its own, whose strings hash otherwise than here.

    Raises ``ChildProcessError`` where that process fails.
    """
    asked = json.dumps({"spec": asdict(spec), "seed": seed, "steps": steps})
    other_hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    ended = subprocess.run(
        command("", "evopolicygym.checks.environment_contract.trace"),
        input=asked.encode(),
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": other_hash_seed},
        timeout=_PATIENCE_S,
        check=False,
    )
    if ended.returncode != 0:
        raise ChildProcessError(ended.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return ended.stdout.decode().split()[-1]


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
    asked = json.load(sys.stdin)
    name = asked["spec"].pop("name")
    spec = catalog.decode(asked["spec"], name, "standard input")
    sys.stdout.write(f"{trace(spec, asked['seed'], asked['steps'])}\n")


if __name__ == "__main__":
    _main()
