"""The contract of environments: checks of a simulator, and digests of its trajectories.

An environment must return what its spaces promise, repeat bit for bit, and have a text for everything.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evopolicygym.core.errors import UsageError
from evopolicygym.core.finding import Finding
from evopolicygym.core.spaces import Box, Discrete, InvalidAction, Space, sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.draft import MOST_MEANINGS, TO_WRITE
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import mismatch
from evopolicygym.packs.installation import command
from evopolicygym.specs import catalog

_SEED = 20260702
_STEPS, _SECONDS = 200, 1.0
"""Limits of an episode in steps and seconds, whichever comes first."""
_WAIT_FOR_TRUNCATION_S = 3.0


@dataclass(slots=True)
class _RandomEpisode:
    """Results of one episode of random actions."""

    observation_space: Space
    action_space: Space
    mismatch: str = ""
    """Difference of the first invalid observation from its space."""
    steps: int = 0
    seconds: float = 0.0
    keys: dict[str, Any] = field(default_factory=dict)
    """Every key of ``info`` that was seen, with its last value."""
    odd_reward: float | None = None
    terminated: bool = False
    idle_error: str = ""
    trace: str = ""


def examine(asked: str | Path | EnvironmentSpec, *, quick: bool = False) -> Iterator[Finding]:
    """Examine a spec, or the environment of a name or of a path to a TOML file; yield one finding after another.

    It ends early where nothing further can be looked at. When ``quick``, one random episode is all that is played, and
    a key of success that it doesn't show is a finding.
    """
    try:
        spec = asked if isinstance(asked, EnvironmentSpec) else catalog.load(asked)
    except UsageError as error:
        yield Finding("loads", ok=False, detail=str(error))
        return
    yield Finding("loads", ok=True, detail=f"{spec.name} is {spec.id}, at most {spec.max_steps} steps")
    try:
        look = _look(spec, traced=not quick)
    except Exception as error:  # noqa: BLE001 - whatever a simulator raises is the finding
        yield Finding("plays", ok=False, detail=_words(error))
        return
    yield _plays(look)
    for name, part in (_QUICK if quick else _PARTS).items():
        yield _finding(name, part, spec, look)


def _look(spec: EnvironmentSpec, *, traced: bool) -> _RandomEpisode:
    environment = Environment(spec)
    try:
        observation = environment.reset(_SEED)
        look = _RandomEpisode(environment.observation_space, environment.action_space)
        look.idle_error = _idle_error(environment)
        look.mismatch = mismatch(look.observation_space, observation)
        _play(environment, look)
    finally:
        environment.close()
    if traced:
        look.trace = trace(spec, _SEED, look.steps)
    return look


def _play(environment: Environment, look: _RandomEpisode) -> None:
    actions, ended, begun = np.random.default_rng(_SEED), False, time.perf_counter()
    while not ended and look.steps < _STEPS and look.seconds < _SECONDS:
        observation, reward, terminated, truncated, info = environment.step(sample(look.action_space, actions))
        ended = terminated or truncated
        look.steps, look.seconds = look.steps + 1, time.perf_counter() - begun
        look.mismatch = look.mismatch or mismatch(look.observation_space, observation)
        look.odd_reward = look.odd_reward if math.isfinite(reward) else reward
        look.keys |= info
        look.terminated = terminated


def _idle_error(environment: Environment) -> str:
    try:
        environment.idle_action  # noqa: B018 - reading it is the trial
    except InvalidAction as error:
        return str(error)
    return ""


def _plays(look: _RandomEpisode) -> Finding:
    if look.odd_reward is not None:
        return Finding("plays", ok=False, detail=f"a reward was {look.odd_reward}; rewards must be finite")
    microseconds = 1e6 * look.seconds / look.steps
    return Finding("plays", ok=True, detail=f"{look.steps} random actions, {microseconds:.0f} µs each")


def _observations(_: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    return not look.mismatch, look.mismatch or f"as their space says: {type(look.observation_space).__name__}"


def _observation_texts(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    return _texts("observation", spec.observation, look.observation_space)


def _action_texts(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    return _texts("action", spec.action, look.action_space)


def _texts(name: str, texts: tuple[str, ...], space: Space) -> tuple[bool, str]:
    unwritten = sum(text.startswith(TO_WRITE) for text in texts)
    more = f"; {unwritten} still to be written" if unwritten else ""
    match space:
        case Box(shape=(due,)) | Discrete(n=due) if due <= MOST_MEANINGS:
            return len(texts) == due, f"{len(texts)} meanings in {name!r} for {due} elements or values{more}"
        case _:
            return bool(texts), f"{len(texts)} sentences in {name!r}, where at least 1 is needed{more}"


def _reward_components(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    absent = [key for key in spec.reward_components if key not in look.keys]
    if absent:
        return False, f"info has no {', '.join(absent)}; it has {', '.join(look.keys) or 'no keys'}"
    return True, ", ".join(spec.reward_components) or "none declared"


def _written(spec: EnvironmentSpec, _: _RandomEpisode) -> tuple[bool, str]:
    texts = {"objective": spec.objective, "reward": spec.reward, "termination": spec.termination}
    texts |= {"success.meaning": spec.success.meaning} if spec.success else {}
    texts |= {name: "".join(f"{text}\n" for text in getattr(spec, name)) for name in ("observation", "action")}
    unwritten = [name for name, text in texts.items() if TO_WRITE.strip() in text]
    return not unwritten, f"TODO still stands in {', '.join(unwritten)}" if unwritten else "all are written"


def _success_seen(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    ok, detail = _success(spec, look)
    has_key = spec.success is not None and spec.success.rule.has_key
    return ok and not (has_key and spec.success is not None and spec.success.key not in look.keys), detail


def _success(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    if spec.success is None or not spec.success.rule.has_key:
        return True, "none declared" if spec.success is None else f"decided by the rule {spec.success.rule.value!r}"
    key = spec.success.key
    if key in look.keys:
        return True, f"info has {key!r}"
    seen = f"info has no {key!r} in {look.steps} steps; it has {', '.join(look.keys) or 'no keys'}"
    return not look.terminated, seen if look.terminated else f"{seen}; it may come when an episode terminates"


def _idle_action(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    return not look.idle_error, look.idle_error or f"{spec.idle_action} is an action"


def _truncation(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    seconds = spec.max_steps * look.seconds / look.steps
    if seconds > _WAIT_FOR_TRUNCATION_S:
        return True, f"not tried: {spec.max_steps} steps would take about {seconds:.0f} s"
    length, terminated = _idle_episode(spec)
    if terminated and length < spec.max_steps:
        return True, f"not reached: the idle action terminates the episode after {length} steps"
    if length < spec.max_steps:
        return False, f"the environment itself truncates after {length} steps, before max_steps = {spec.max_steps}"
    return True, f"after {length} steps"


def _idle_episode(spec: EnvironmentSpec) -> tuple[int, bool]:
    environment = Environment(spec)
    try:
        environment.reset(_SEED)
        action, length, terminated, truncated = environment.idle_action, 0, False, False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = environment.step(action)
            length += 1
    finally:
        environment.close()
    return length, terminated


def _repeats(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    return _compare(look, trace(spec, _SEED, look.steps))


def _repeats_after_another(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    trace(spec, _SEED + 1, look.steps)
    return _compare(look, trace(spec, _SEED, look.steps))


def _repeats_elsewhere(spec: EnvironmentSpec, look: _RandomEpisode) -> tuple[bool, str]:
    return _compare(look, trace_elsewhere(spec, _SEED, look.steps))


def _compare(look: _RandomEpisode, other: str) -> tuple[bool, str]:
    same = "the same bits" if look.trace == other else "other bits for the same seed and actions"
    return look.trace == other, f"{same}: {look.trace[:12]} and {other[:12]}"


_Part = Callable[[EnvironmentSpec, _RandomEpisode], tuple[bool, str]]

_PARTS: dict[str, _Part] = {
    "observations": _observations,
    "observation texts": _observation_texts,
    "action texts": _action_texts,
    "reward components": _reward_components,
    "success": _success,
    "idle action": _idle_action,
    "truncation": _truncation,
    "repeats": _repeats,
    "repeats after another episode": _repeats_after_another,
    "repeats in another process": _repeats_elsewhere,
}


_QUICK: dict[str, _Part] = {
    "texts": _written,
    **{name: _PARTS[name] for name in ("observations", "observation texts", "action texts", "reward components")},
    "success": _success_seen,
    "idle action": _idle_action,
}
"""Checks of a user's own environment before a run."""


def _finding(name: str, part: _Part, spec: EnvironmentSpec, look: _RandomEpisode) -> Finding:
    try:
        ok, detail = part(spec, look)
    except Exception as error:  # noqa: BLE001 - as above
        return Finding(name, ok=False, detail=_words(error))
    return Finding(name, ok=ok, detail=detail)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"


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
        command("", "evopolicygym.checks.environment_contract"),
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
