"""The check of an environment, for the author of a spec.

An environment must return values of its spaces, repeat its episodes bit for bit, and describe all of its spaces. The
check takes some seconds, in a separate process, which is killed if a simulator hangs.

As a program, ``check FD`` reads ``{"spec": …, "path": …, "patience": …, "quick": …}`` from standard input and writes
one finding per line to the descriptor; ``trace`` reads ``{"spec": …, "seed": …, "steps": …}`` and prints a digest.
"""

import faulthandler
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
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

if TYPE_CHECKING:
    from hashlib import _Hash

PATIENCE_S = 60.0
"""Default limit of a finding, in seconds."""
FRAMES = 4
"""Innermost stack frames in the report of a hang."""
_TRACE_TIMEOUT_S = 120
_SEED = 20260702
_STEPS, _SECONDS = 200, 1.0
"""Limits of the random episode, whichever comes first."""
_WAIT_FOR_TRUNCATION_S = 3.0


def check(name: str | EnvironmentSpec, patience_s: float = PATIENCE_S, *, quick: bool = False) -> Iterator[Finding]:
    """Check an environment, given by name, path of a TOML file or spec; yield its findings.

    A finding that takes longer than ``patience_s`` fails and ends the check. ``quick`` plays one random episode only.
    """
    try:
        spec = name if isinstance(name, EnvironmentSpec) else catalog.load(name)
    except UsageError as error:
        yield Finding("loads", ok=False, detail=str(error))
        return
    request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path, "patience": patience_s, "quick": quick}
    read_end, write_end = os.pipe()
    with TemporaryFile("w+") as stdin, TemporaryFile() as output, os.fdopen(read_end, encoding="utf-8") as findings:
        stdin.write(json.dumps(request))
        stdin.seek(0)
        program = command(spec.pack, "evopolicygym.checks.environment", "check", str(write_end))
        process = subprocess.Popen(
            program, stdin=stdin, stdout=output, stderr=output, pass_fds=[write_end], start_new_session=True
        )
        os.close(write_end)
        try:
            for line in findings:
                yield Finding(**json.loads(line))
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            output.seek(0)
            yield _unanswered(spec, process.returncode, output.read().decode("utf-8", "replace"), patience_s)


def _unanswered(spec: EnvironmentSpec, code: int, output: str, patience_s: float) -> Finding:
    """Return the finding for a simulator that ended its process or hung."""
    _, hung, stack = output.rpartition("Timeout (")
    if not hung:
        return Finding(
            "answers", ok=False, detail=f"{spec.id} ended its process, exit code {code}: {output.strip()[-300:]}"
        )
    frames = [line.strip() for line in stack.splitlines() if line.strip().startswith("File ")][:FRAMES]
    where = "; ".join(frames) or "an unknown place"
    return Finding("answers", ok=False, detail=f"{spec.id} gave no answer for {patience_s:g} s; it hung in {where}")


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
    """The keys of ``info``, each with its last value."""
    odd_reward: float | None = None
    terminated: bool = False
    idle_error: str = ""
    trace: str = ""


def examine(name: str | Path | EnvironmentSpec, *, quick: bool = False) -> Iterator[Finding]:
    """Check an environment in this process, given as for ``check``; yield its findings.

    It ends early where the environment can't be loaded or played. ``quick`` plays one random episode only, whose
    ``info`` must contain the key of success.
    """
    try:
        spec = name if isinstance(name, EnvironmentSpec) else catalog.load(name)
    except UsageError as error:
        yield Finding("loads", ok=False, detail=str(error))
        return
    yield Finding("loads", ok=True, detail=f"{spec.name} is {spec.id}, at most {spec.max_steps} steps")
    try:
        episode = _play_random(spec, traced=not quick)
    except Exception as error:  # noqa: BLE001 - whatever a simulator raises is the finding
        yield Finding("plays", ok=False, detail=_error_text(error))
        return
    yield _plays(episode)
    for title, check in (_QUICK if quick else _PARTS).items():
        yield _finding(title, check, spec, episode)


def _play_random(spec: EnvironmentSpec, *, traced: bool) -> _RandomEpisode:
    environment = Environment(spec)
    try:
        observation = environment.reset(_SEED)
        episode = _RandomEpisode(environment.observation_space, environment.action_space)
        episode.idle_error = _idle_error(environment)
        episode.mismatch = mismatch(episode.observation_space, observation)
        _play(environment, episode)
    finally:
        environment.close()
    if traced:
        episode.trace = trace(spec, _SEED, episode.steps)
    return episode


def _play(environment: Environment, episode: _RandomEpisode) -> None:
    actions, ended, start = np.random.default_rng(_SEED), False, time.perf_counter()
    while not ended and episode.steps < _STEPS and episode.seconds < _SECONDS:
        observation, reward, terminated, truncated, info = environment.step(sample(episode.action_space, actions))
        ended = terminated or truncated
        episode.steps, episode.seconds = episode.steps + 1, time.perf_counter() - start
        episode.mismatch = episode.mismatch or mismatch(episode.observation_space, observation)
        episode.odd_reward = episode.odd_reward if math.isfinite(reward) else reward
        episode.keys |= info
        episode.terminated = terminated


def _idle_error(environment: Environment) -> str:
    try:
        environment.idle_action  # noqa: B018 - reading it validates it
    except InvalidAction as error:
        return str(error)
    return ""


def _plays(episode: _RandomEpisode) -> Finding:
    if episode.odd_reward is not None:
        return Finding("plays", ok=False, detail=f"a reward was {episode.odd_reward}; rewards must be finite")
    microseconds = 1e6 * episode.seconds / episode.steps
    return Finding("plays", ok=True, detail=f"{episode.steps} random actions, {microseconds:.0f} µs each")


def _observations(_: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    return not episode.mismatch, episode.mismatch or f"as their space says: {type(episode.observation_space).__name__}"


def _observation_texts(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    return _texts("observation", spec.observation, episode.observation_space)


def _action_texts(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    return _texts("action", spec.action, episode.action_space)


def _texts(name: str, texts: tuple[str, ...], space: Space) -> tuple[bool, str]:
    unwritten = sum(text.startswith(TO_WRITE) for text in texts)
    more = f"; {unwritten} still to be written" if unwritten else ""
    match space:
        case Box(shape=(size,)) | Discrete(n=size) if size <= MOST_MEANINGS:
            return len(texts) == size, f"{len(texts)} meanings in {name!r} for {size} elements or values{more}"
        case _:
            return bool(texts), f"{len(texts)} sentences in {name!r}, where at least 1 is needed{more}"


def _reward_components(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    absent = [key for key in spec.reward_components if key not in episode.keys]
    if absent:
        return False, f"info has no {', '.join(absent)}; it has {', '.join(episode.keys) or 'no keys'}"
    return True, ", ".join(spec.reward_components) or "none declared"


def _all_texts(spec: EnvironmentSpec, _: _RandomEpisode) -> tuple[bool, str]:
    texts = {"objective": spec.objective, "reward": spec.reward, "termination": spec.termination}
    texts |= {"success.meaning": spec.success.meaning} if spec.success else {}
    texts |= {name: "".join(f"{text}\n" for text in getattr(spec, name)) for name in ("observation", "action")}
    unwritten = [name for name, text in texts.items() if TO_WRITE.strip() in text]
    return not unwritten, f"TODO still stands in {', '.join(unwritten)}" if unwritten else "all are written"


def _success_key(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    ok, detail = _success(spec, episode)
    has_key = spec.success is not None and spec.success.rule.has_key
    return ok and not (has_key and spec.success is not None and spec.success.key not in episode.keys), detail


def _success(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    if spec.success is None or not spec.success.rule.has_key:
        return True, "none declared" if spec.success is None else f"decided by the rule {spec.success.rule.value!r}"
    key = spec.success.key
    if key in episode.keys:
        return True, f"info has {key!r}"
    absent = f"info has no {key!r} in {episode.steps} steps; it has {', '.join(episode.keys) or 'no keys'}"
    return not episode.terminated, absent if episode.terminated else f"{absent}; it may come when an episode terminates"


def _idle_action(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    return not episode.idle_error, episode.idle_error or f"{spec.idle_action} is an action"


def _truncation(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    seconds = spec.max_steps * episode.seconds / episode.steps
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


def _repeats(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    return _compare(episode, trace(spec, _SEED, episode.steps))


def _repeats_after_another(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    trace(spec, _SEED + 1, episode.steps)
    return _compare(episode, trace(spec, _SEED, episode.steps))


def _repeats_elsewhere(spec: EnvironmentSpec, episode: _RandomEpisode) -> tuple[bool, str]:
    return _compare(episode, trace_elsewhere(spec, _SEED, episode.steps))


def _compare(episode: _RandomEpisode, other: str) -> tuple[bool, str]:
    same = "the same bits" if episode.trace == other else "other bits for the same seed and actions"
    return episode.trace == other, f"{same}: {episode.trace[:12]} and {other[:12]}"


_Check = Callable[[EnvironmentSpec, _RandomEpisode], tuple[bool, str]]

_PARTS: dict[str, _Check] = {
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


_QUICK: dict[str, _Check] = {
    "texts": _all_texts,
    **{name: _PARTS[name] for name in ("observations", "observation texts", "action texts", "reward components")},
    "success": _success_key,
    "idle action": _idle_action,
}
"""Checks of a user's environment before a run."""


def _finding(name: str, check: _Check, spec: EnvironmentSpec, episode: _RandomEpisode) -> Finding:
    try:
        ok, detail = check(spec, episode)
    except Exception as error:  # noqa: BLE001 - as above
        return Finding(name, ok=False, detail=_error_text(error))
    return Finding(name, ok=ok, detail=detail)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"


def trace(spec: EnvironmentSpec, seed: int, steps: int) -> str:
    """Return a digest of at most ``steps`` random actions on a new environment; ``seed`` decides the actions too."""
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
    """Return the same digest from a separate process with another hash seed.

    Raises ``ChildProcessError`` if that process fails.
    """
    request = json.dumps({"spec": asdict(spec), "seed": seed, "steps": steps})
    other_hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    process = subprocess.run(
        command("", "evopolicygym.checks.environment", "trace"),
        input=request.encode(),
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": other_hash_seed},
        timeout=_TRACE_TIMEOUT_S,
        check=False,
    )
    if process.returncode != 0:
        raise ChildProcessError(process.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return process.stdout.decode().split()[-1]


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


def _serve_check(descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    name = request["spec"].pop("name")
    with os.fdopen(descriptor, "w", encoding="utf-8", buffering=1) as findings:
        faulthandler.dump_traceback_later(request["patience"], exit=True)
        for finding in examine(catalog.decode(request["spec"], name, "standard input"), quick=request["quick"]):
            faulthandler.dump_traceback_later(request["patience"], exit=True)
            findings.write(json.dumps(asdict(finding)) + "\n")
    faulthandler.cancel_dump_traceback_later()


def _serve_trace() -> None:
    request = json.load(sys.stdin)
    name = request["spec"].pop("name")
    spec = catalog.decode(request["spec"], name, "standard input")
    sys.stdout.write(f"{trace(spec, request['seed'], request['steps'])}\n")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        _serve_check(int(sys.argv[2]))
    else:
        _serve_trace()
