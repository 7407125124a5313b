"""The check of an environment, for the author of a spec.

An environment must keep Gymnasium's contract, return values of its spaces that a run can record, repeat its episodes
bit for bit, have cases that differ, and describe all of its spaces. The check takes up to half a minute, in a separate
process, which is killed if a simulator hangs.

As a program with a descriptor as its argument, it reads ``{"spec": …, "path": …, "patience": …, "quick": …, "texts":
…}`` from standard input and writes one finding per line to the descriptor.
"""

import faulthandler
import io
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stderr, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile

from gymnasium.utils.env_checker import check_env

from evopolicygym.checks.random_episodes import QUICK, SEED, WHOLE, RandomEpisodes, play_random
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import EnvironmentFault, UsageError
from evopolicygym.core.spaces import Box, Discrete, Space
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.environments.draft import MOST_MEANINGS, TO_WRITE
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.trace import PROCESSES, REPETITIONS, repetitions, trace
from evopolicygym.packs.installation import command
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.specs import catalog

PATIENCE_S = 60.0
"""Default limit of a finding, in seconds."""
FRAMES = 4
"""Innermost stack frames in the report of a hang."""
_OTHER_SEED, _OTHER_STEPS = SEED - 1, 200
"""Of the episode before one that is repeated."""
_WAIT_FOR_TRUNCATION_S = 3.0
_REPETITION_S = 1.0
"""The most seconds of a repetition in another process, as the episode took them."""


def check(
    name: str | EnvironmentSpec, patience_s: float = PATIENCE_S, *, quick: bool = False, texts: bool = True
) -> Iterator[CheckResult]:
    """Check an environment, given as for a run or as a spec; yield its findings.

    A finding that takes longer than ``patience_s`` fails and ends the check. ``quick`` plays one random episode only.
    Without ``texts``, as for an id whose texts were derived, meanings are not counted.
    """
    try:
        if not isinstance(name, EnvironmentSpec):
            name, text = resolve_environment(name, TaskText.FULL)
            texts = texts and text is TaskText.FULL
    except (UsageError, EnvironmentFault) as error:
        yield CheckResult("loads", ok=False, detail=str(error))
        return
    spec, options = name, {"patience": patience_s, "quick": quick, "texts": texts}
    request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path, **options}
    read_end, write_end = os.pipe()
    with TemporaryFile("w+") as stdin, TemporaryFile() as output, os.fdopen(read_end, encoding="utf-8") as findings:
        stdin.write(json.dumps(request))
        stdin.seek(0)
        program = command(spec.pack, "evopolicygym.checks.environment", str(write_end))
        process = subprocess.Popen(
            program, stdin=stdin, stdout=output, stderr=output, pass_fds=[write_end], start_new_session=True
        )
        os.close(write_end)
        try:
            for line in findings:
                yield CheckResult(**json.loads(line))
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            output.seek(0)
            yield _unanswered(spec, process.returncode, output.read().decode("utf-8", "replace"), patience_s)


def _unanswered(spec: EnvironmentSpec, code: int, output: str, patience_s: float) -> CheckResult:
    """Return the finding for a simulator that ended its process or hung."""
    _, hung, stack = output.rpartition("Timeout (")
    if not hung:
        return CheckResult(
            "answers", ok=False, detail=f"{spec.id} ended its process, exit code {code}: {output.strip()[-300:]}"
        )
    frames = [line.strip() for line in stack.splitlines() if line.strip().startswith("File ")][:FRAMES]
    where = "; ".join(frames) or "an unknown place"
    return CheckResult("answers", ok=False, detail=f"{spec.id} gave no answer for {patience_s:g} s; it hung in {where}")


def examine(name: str | Path | EnvironmentSpec, *, quick: bool = False, texts: bool = True) -> Iterator[CheckResult]:
    """Check an environment in this process, given as for ``check``; yield its findings.

    It ends early where the environment can't be loaded or played. ``quick`` plays one random episode only, whose
    ``info`` must contain the key of success; else the last finding says how much of an episode was played.
    """
    try:
        spec = name if isinstance(name, EnvironmentSpec) else catalog.load(name)
    except UsageError as error:
        yield CheckResult("loads", ok=False, detail=str(error))
        return
    yield CheckResult("loads", ok=True, detail=f"{spec.name} is {spec.id}, at most {spec.max_steps} steps")
    try:
        played = play_random(spec, QUICK if quick else WHOLE)
    except Exception as error:  # noqa: BLE001 - whatever a simulator raises is the finding
        yield CheckResult("plays", ok=False, detail=_error_text(error))
        return
    yield _plays(played)
    for title, check in (_QUICK if quick else _PARTS).items():
        if texts or check not in {_observation_texts, _action_texts}:
            yield _finding(title, check, spec, played)
    if not quick:
        yield _coverage(spec, played)


def _plays(played: RandomEpisodes) -> CheckResult:
    if played.odd_reward:
        return CheckResult("plays", ok=False, detail=f"a reward was {played.odd_reward}; rewards must be finite")
    microseconds = 1e6 * played.seconds / played.steps
    return CheckResult("plays", ok=True, detail=f"{played.steps} random actions, {microseconds:.0f} µs each")


def _coverage(spec: EnvironmentSpec, played: RandomEpisodes) -> CheckResult:
    """Return the last finding: how much of an episode was looked at."""
    longest = played.longest.steps
    rest = "" if longest >= spec.max_steps else "; what comes later was not looked at"
    return CheckResult(
        "coverage",
        ok=True,
        detail=f"{longest} of {spec.max_steps} steps in the longest of {len(played.episodes)} episodes{rest}",
        more={"steps": longest, "max_steps": spec.max_steps, "episodes": len(played.episodes)},
    )


def _observations(_: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    return not played.mismatch, played.mismatch or f"as their space says: {type(played.observation_space).__name__}"


def _observation_texts(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    return _texts("observation", spec.observation, played.observation_space)


def _action_texts(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    return _texts("action", spec.action, played.action_space)


def _texts(name: str, texts: tuple[str, ...], space: Space) -> tuple[bool, str]:
    unwritten = sum(text.startswith(TO_WRITE) for text in texts)
    more = f"; {unwritten} still to be written" if unwritten else ""
    match space:
        case Box(shape=(size,)) | Discrete(n=size) if size <= MOST_MEANINGS:
            return len(texts) == size, f"{len(texts)} meanings in {name!r} for {size} elements or values{more}"
        case _:
            return bool(texts), f"{len(texts)} sentences in {name!r}, where at least 1 is needed{more}"


def _reward_components(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    absent = [key for key in spec.reward_components if key not in played.keys]
    if absent:
        return False, f"info has no {', '.join(absent)}; it has {', '.join(played.keys) or 'no keys'}"
    return True, ", ".join(spec.reward_components) or "none declared"


def _all_texts(spec: EnvironmentSpec, _: RandomEpisodes) -> tuple[bool, str]:
    texts = {"objective": spec.objective, "reward": spec.reward, "termination": spec.termination}
    texts |= {"success.meaning": spec.success.meaning} if spec.success else {}
    texts |= {name: "".join(f"{text}\n" for text in getattr(spec, name)) for name in ("observation", "action")}
    unwritten = [name for name, text in texts.items() if TO_WRITE.strip() in text]
    return not unwritten, f"TODO still stands in {', '.join(unwritten)}" if unwritten else "all are written"


def _success_key(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    ok, detail = _success(spec, played)
    has_key = spec.success is not None and spec.success.rule.has_key
    return ok and not (has_key and spec.success is not None and spec.success.key not in played.keys), detail


def _success(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    if spec.success is None or not spec.success.rule.has_key:
        return True, "none declared" if spec.success is None else f"decided by the rule {spec.success.rule.value!r}"
    key = spec.success.key
    if key in played.keys:
        return True, f"info has {key!r}"
    absent = f"info has no {key!r} in {played.steps} steps; it has {', '.join(played.keys) or 'no keys'}"
    return not played.terminated, absent if played.terminated else f"{absent}; it may come when an episode terminates"


def _idle_action(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    return not played.idle_error, played.idle_error or f"{spec.idle_action} is an action"


def _truncation(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    seconds = spec.max_steps * played.seconds / played.steps
    if seconds > _WAIT_FOR_TRUNCATION_S:
        return True, f"not tried: {spec.max_steps} steps would take about {seconds:.0f} s"
    length, terminated = _idle_episode(spec)
    if terminated and length < spec.max_steps:
        return True, f"not reached: the idle action terminates the episode after {length} steps"
    if length < spec.max_steps:
        return False, f"the environment itself truncates after {length} steps, before max_steps = {spec.max_steps}"
    return True, f"after {length} steps"


def _idle_episode(spec: EnvironmentSpec) -> tuple[int, bool]:
    with closing(Environment(spec)) as environment:
        environment.reset(SEED)
        action, length, terminated, truncated = environment.idle_action, 0, False, False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = environment.step(action)
            length += 1
    return length, terminated


def _gymnasium(spec: EnvironmentSpec, _: RandomEpisodes) -> tuple[bool, str]:
    """Have Gymnasium check the simulator; what it only warns of passes."""
    with closing(Environment(spec)) as environment, warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        check_env(environment.simulator, skip_render_check=True, skip_close_check=True)
    return True, "check_env finds nothing"


def _recording(_: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    return not played.unrecorded, played.unrecorded or f"{len(played.episodes)} episodes written as a run writes them"


def _cases_differ(_: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    first, *others = played.episodes
    if not others:
        return True, "not tried: there was time for one episode only"
    if not all(first.is_like(other) for other in others):
        return True, f"{len(played.episodes)} seeds, the same actions, different episodes"
    return False, (
        f"{len(played.episodes)} seeds and the same actions give the same episode: train, validation and held-out "
        f"cases are one. Draw each episode's start, or its transitions, from self.np_random"
    )


def _repeats(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    return _compare(played, played.longest.steps, [trace(spec, played.longest.seed, played.longest.steps)])


def _repeats_after_another(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    trace(spec, _OTHER_SEED, _OTHER_STEPS)
    return _repeats(spec, played)


def _repeats_elsewhere(spec: EnvironmentSpec, played: RandomEpisodes) -> tuple[bool, str]:
    longest = played.longest
    steps = max(1, min(longest.steps, int(_REPETITION_S * longest.steps / longest.seconds)))
    digests = repetitions(spec, longest.seed, steps, REPETITIONS * _REPETITION_S / PROCESSES)
    ok, detail = _compare(played, steps, digests)
    return ok, f"{detail}; in {PROCESSES} processes of other hash seeds and global generators"


def _compare(played: RandomEpisodes, steps: int, digests: Sequence[str]) -> tuple[bool, str]:
    """Compare steps of the longest episode with its repetitions."""
    expected = played.longest.digests[steps].hex()
    others = [digest for digest in digests if digest != expected]
    if not others:
        times = f"{len(digests)} times " if len(digests) > 1 else ""
        return True, f"{times}the same bits in {steps} steps: {expected[:12]}"
    times = f", {len(others)} of {len(digests)} times" if len(digests) > 1 else ""
    return False, (
        f"other bits for the same seed and actions{times}, in {steps} steps: {expected[:12]} and {others[0][:12]}"
    )


_Check = Callable[[EnvironmentSpec, RandomEpisodes], tuple[bool, str]]

_PARTS: dict[str, _Check] = {
    "observations": _observations,
    "observation texts": _observation_texts,
    "action texts": _action_texts,
    "reward components": _reward_components,
    "success": _success,
    "idle action": _idle_action,
    "gymnasium": _gymnasium,
    "recording": _recording,
    "truncation": _truncation,
    "cases differ": _cases_differ,
    "repeats": _repeats,
    "repeats after another episode": _repeats_after_another,
    "repeats in other processes": _repeats_elsewhere,
}


_QUICK: dict[str, _Check] = {
    "texts": _all_texts,
    **{name: _PARTS[name] for name in ("observations", "observation texts", "action texts", "reward components")},
    "success": _success_key,
    "idle action": _idle_action,
}
"""Checks of a user's environment before a run."""


def _finding(name: str, check: _Check, spec: EnvironmentSpec, played: RandomEpisodes) -> CheckResult:
    try:
        ok, detail = check(spec, played)
    except Exception as error:  # noqa: BLE001 - as above
        return CheckResult(name, ok=False, detail=_error_text(error))
    return CheckResult(name, ok=ok, detail=detail)


def _error_text(error: Exception) -> str:
    if isinstance(error, UsageError):
        return str(error)
    return ", ".join((f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())))


def _serve_check(descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    name = request["spec"].pop("name")
    with os.fdopen(descriptor, "w", encoding="utf-8", buffering=1) as findings:
        faulthandler.dump_traceback_later(request["patience"], exit=True)
        spec, options = catalog.decode(request["spec"], name, "standard input"), ("quick", "texts")
        for finding in examine(spec, **{option: request[option] for option in options}):
            faulthandler.dump_traceback_later(request["patience"], exit=True)
            findings.write(json.dumps(asdict(finding)) + "\n")
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    _serve_check(int(sys.argv[1]))
