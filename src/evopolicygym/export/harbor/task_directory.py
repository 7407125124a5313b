"""A Harbor task of one environment, as the files of a directory (task schema 1.4).

``task_template/`` holds them with ``{{words}}`` in braces, which stand for what differs between environments. The
reference policy, which Harbor's oracle submits, is laid beside ``solution/solve.sh`` by whoever may read it.
"""

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.export.harbor.judge_image import WHEEL, constraints, version_of
from evopolicygym.version import __version__

ORGANISATION = "evopolicygym"
AGENT_S, SCORING_S = 14_400.0, 10_800.0
"""Seconds that Harbor gives an agent, and the verifier: validation plays every submission, which may take hours."""
MARGIN_S = 60
"""Seconds by which we give up waiting for the score before Harbor ends us, so that we can say why."""
LIBRARIES = ("numpy", "scipy")
"""What policies can import, which the agent's container has as well."""
SOLUTION = Path("solution", "system")
EXECUTABLE = frozenset({".sh"})


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task that was written."""

    name: str
    """``ORGANISATION/NAME``, as Harbor calls it."""
    directory: Path
    files: tuple[str, ...]
    """Paths of all its files in the directory, sorted."""


def write_task(
    spec: EnvironmentSpec,
    directory: Path,
    *,
    budget: int,
    arguments: Sequence[str],
    wheel: bytes,
    lay_solution: Callable[[Path], object],
) -> HarborTask:
    """Write an environment's task into a new directory.

    ``arguments`` are those of ``evopolicygym serve``, after the environment. ``lay_solution`` is called with the
    directory that the reference policy's files go into. Raises ``UsageError`` where the environment lacks an anchor.
    """
    values = _values(spec, budget, arguments)
    for path, template in _template(files("evopolicygym.export.harbor") / "task_template"):
        _write(directory / path, _filled(template, values).encode())
    judge = directory / "environment" / "judge"
    _write(judge / WHEEL, wheel)
    _write(judge / "constraints.txt", constraints(spec.extra).encode())
    _write(directory / "tests" / "anchors.json", f"{json.dumps(_about(spec), indent=2)}\n".encode())
    (directory / SOLUTION).mkdir()
    lay_solution(directory / SOLUTION)
    found = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return HarborTask(f"{ORGANISATION}/{spec.name}", directory, tuple(found))


def anchors(spec: EnvironmentSpec) -> tuple[float, float]:
    """Return the mean returns at which the reward is 0 and 1; raise ``UsageError`` where one was not measured."""
    if spec.random_anchor is None or spec.reference_anchor is None:
        raise UsageError(
            f"The environment {spec.name!r} can't be a Harbor task: its reward is 0 at random_anchor and 1 at "
            f"reference_anchor, and its spec lacks one of them. The environments of core16 have both."
        )
    return spec.random_anchor.mean, spec.reference_anchor.mean


def _about(spec: EnvironmentSpec) -> dict[str, Any]:
    random, reference = anchors(spec)
    return {
        "environment": spec.name,
        "random_anchor": random,
        "reference_anchor": reference,
        "patience_seconds": SCORING_S - MARGIN_S,
    }


def _values(spec: EnvironmentSpec, budget: int, arguments: Sequence[str]) -> dict[str, str]:
    """Return what stands for each word in braces. JSON's texts and lists are TOML's too."""
    random, reference = anchors(spec)
    libraries = " ".join(f"{name}=={version}" for name in LIBRARIES if (version := version_of(name)))
    summary = f"Improve an executable policy for {spec.id} through feedback from {budget} episodes."
    encoded = {
        "package": f"{ORGANISATION}/{spec.name}",
        "description": summary,
        "keywords": ["reinforcement-learning", "policy-improvement", spec.family, spec.kind.value],
        "environment": spec.name,
        "gymnasium_id": spec.id,
        "family": spec.family,
        "kind": spec.kind.value,
        "random": random,
        "reference": reference,
        "arguments": list(arguments),
        "version": __version__,
        "agent_timeout": AGENT_S,
        "scoring_timeout": SCORING_S,
        "command": ["serve", spec.name, *arguments],
    }
    plain = {
        "patience": f"{SCORING_S - MARGIN_S:g}",
        "title": spec.name,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "libraries": libraries,
        "wheel": WHEEL,
        "extra": f"[{spec.extra}]" if spec.extra else "",
        "budget": str(budget),
        "objective": spec.objective.strip(),
        "reward": spec.reward.strip(),
        "termination": spec.termination.strip(),
    }
    return {**{name: json.dumps(value, ensure_ascii=False) for name, value in encoded.items()}, **plain}


def _filled(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template


def _template(folder: Traversable, path: Path = Path()) -> Iterator[tuple[Path, str]]:
    for one in folder.iterdir():
        if one.is_dir():
            if one.name != "__pycache__":
                yield from _template(one, path / one.name)
        else:
            yield path / one.name, one.read_text(encoding="utf-8")


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o755 if file.suffix in EXECUTABLE else 0o644)
