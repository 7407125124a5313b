"""Drafts the TOML file of an environment from its gymnasium id; a person completes its texts.

Spaces, limits and names are read from the simulator, in this process or on the Python of its pack. An id of a pack
needs no module.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from typing import Any

import numpy as np

from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError
from evopolicygym.core.pack import distribution_name
from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    from_schema,
    sample,
    to_schema,
)
from evopolicygym.core.task import EnvironmentSpec, TaskKind
from evopolicygym.environments.description import describe
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.versions import entry_point_modules, registration
from evopolicygym.specs import pack_catalog

MOST_MEANINGS = 64
"""Most elements or values that need a meaning each; a larger space, such as a memory, is described in sentences."""
TO_WRITE = "TODO: "
"""Prefix of texts that a person must write."""
GUESSED_STEPS = 1000
"""Step limit of an id that is registered without one."""
STEPS = 20
"""Random actions before the names in ``info`` are read."""
SEED = 0
_PHYSICS = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "box2d"}
"""Distributions required by environments that gymnasium ships."""
_ENGINES = {"mujoco", "box2d", "box2d-py", "pybullet", "pymunk", "dm-control", "brax", "jax", "genesis-world", "drake"}
"""Distributions of physics engines and of the arithmetic that simulators are written in."""
_FIRST, _OPTIONAL = ("id", "family", "kind"), ("imports", "arguments", "packages", "pack")
_TEXTS = ("objective", "reward", "termination", "observation", "action")
_LAST = ("max_steps", *_TEXTS, "idle_action")
"""The fields of a draft, in order."""
_RECORDED = {"gymnasium", "numpy"}
"""Distributions that every run records."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted TOML text, and the fields that a person must complete or check."""

    text: str
    to_write: tuple[str, ...]
    """Fields whose texts must be written, each with their number."""
    to_check: tuple[str, ...]
    """Guessed fields with their values."""


def file_name(gymnasium_id: str) -> str:
    """Return the file name of a draft, such as ``space_invaders.toml`` for ``ALE/SpaceInvaders-v5``."""
    bare = re.sub(r"-v\d+$", "", re.split("[:/]", gymnasium_id)[-1])
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare)
    return f"{re.sub('[^a-z0-9]+', '_', words.lower()).strip('_') or 'environment'}.toml"


def draft(
    gymnasium_id: str, imports: tuple[str, ...] = (), arguments: Mapping[str, Any] | None = None, name: str = ""
) -> Draft:
    """Return the draft of an id's spec, by default named after it.

    Raises ``UsageError`` if the id or a module is unknown, its pack isn't installed, or a space is not supported, and
    ``EnvironmentFault`` if the simulator fails.
    """
    own_name = name or file_name(gymnasium_id).removesuffix(".toml")
    initial, known_limit = _initial_spec(gymnasium_id, imports, arguments or {}, own_name)
    try:
        spaces, limit, meanings, info = _inspect_remotely(initial) if initial.pack else _inspect(initial)
    except EvoPolicyGymError:
        raise
    except Exception as error:
        raise EnvironmentFault(f"{gymnasium_id} can't be played: {type(error).__name__}: {error}") from error
    limit = known_limit or limit
    steps = limit or GUESSED_STEPS
    spec = replace(
        initial,
        max_steps=steps,
        termination=f"{initial.termination} {steps} steps.",
        observation=tuple(_meanings(spaces[0])),
        action=tuple(_value_names(spaces[1], meanings)),
        idle_action=idle_action(spaces[1], meanings),
        packages=initial.packages if initial.pack else tuple(sorted(_packages(initial))),
    )
    notes = {
        "kind": 'or "synthesis", where perception, memory or planning has to be built',
        "packages": f"distributions whose versions are recorded: {'those of its pack' if initial.pack else 'a guess'}",
        "max_steps": "the limit that it has by itself" if limit else "a guess: it is registered without a limit",
        "observation": f"{describe_space(spaces[0])}: {_meaning_form(spaces[0])}",
        "action": f"{describe_space(spaces[1])}: {_meaning_form(spaces[1])}",
        "idle_action": "the action that does nothing: a guess",
    }
    return _format_draft(spec, notes, info)


def _initial_spec(
    gymnasium_id: str, imports: tuple[str, ...], arguments: Mapping[str, Any], name: str
) -> tuple[EnvironmentSpec, int | None]:
    """Return a spec before its simulator is inspected, and the step limit of its pack if it has one.

    An id with a module is not looked up in packs.
    """
    initial = EnvironmentSpec(
        name=name,
        id=gymnasium_id,
        family="mine",
        kind=TaskKind.TUNING,
        max_steps=GUESSED_STEPS,
        objective=f"{TO_WRITE}what is to be done, and what the world is: its laws, what an episode starts from",
        reward=f"{TO_WRITE}what a step pays",
        termination=f"{TO_WRITE}when an episode ends. Truncated after",
        observation=(),
        action=(),
        idle_action=None,
        imports=imports,
        arguments=dict(arguments),
    )
    entry = None if initial.registering_modules else pack_catalog.find(gymnasium_id)
    if entry is None:
        return initial, None
    pack, task = entry
    of_pack = replace(
        initial,
        max_steps=task.max_steps or GUESSED_STEPS,
        imports=pack.imports,
        arguments={**task.arguments, **arguments},
        success=task.success,
        packages=pack.packages,
        pack="" if pack.is_beside_us else pack.name,
    )
    return of_pack, task.max_steps


def _format_draft(spec: EnvironmentSpec, notes: Mapping[str, str], info: Mapping[str, Any]) -> Draft:
    """Return a spec as a draft, with a note before each field; empty optional fields are left out."""
    fields = {name: getattr(spec, name) for name in (*_FIRST, *_OPTIONAL, *_LAST)}
    there = {name: _toml(value) for name, value in fields.items() if value or name not in _OPTIONAL}
    noted = {name: f"# {name}: {note}\n" for name, note in notes.items()}
    lines = [
        f"# Write what says {TO_WRITE.strip(': ')}, then: evopolicygym check environment {spec.name}.toml",
        *(f"{noted.get(name, '')}{name} = {text}" for name, text in there.items()),
        _success_line(spec, info),
    ]
    texts = {name: [fields[name]] if isinstance(fields[name], str) else fields[name] for name in _TEXTS}
    unwritten = {name: sum(text.startswith(TO_WRITE) for text in values) for name, values in texts.items()}
    return Draft(
        text="\n".join(lines) + "\n",
        to_write=tuple(f"{name} ({count})" if count > 1 else name for name, count in unwritten.items() if count),
        to_check=tuple(f"{name} = {there[name]}" for name in there if "a guess" in notes.get(name, "")),
    )


def _inspect(spec: EnvironmentSpec) -> tuple[tuple[Space, Space], int | None, tuple[str, ...], dict[str, Any]]:
    """Return an environment's spaces, step limit, names of actions, and ``info`` after some random steps."""
    environment, random = Environment(spec), np.random.default_rng(SEED)
    try:
        environment.reset(SEED)
        spaces, ended, info = (environment.observation_space, environment.action_space), False, dict[str, Any]()
        for _ in range(STEPS):
            if not ended:
                *_, terminated, truncated, step_info = environment.step(sample(spaces[1], random))
                ended, info = terminated or truncated, info | step_info
        return spaces, environment.step_limit, environment.action_meanings, info
    finally:
        environment.close()


def _inspect_remotely(spec: EnvironmentSpec) -> tuple[tuple[Space, Space], int | None, tuple[str, ...], dict[str, Any]]:
    """Return the same for an environment on the Python of its pack, with an empty ``info``."""
    description = describe(spec)
    spaces = from_schema(description.observation_schema), from_schema(description.action_schema)
    return spaces, description.step_limit, description.action_meanings, {}


def _packages(spec: EnvironmentSpec) -> Iterator[str]:
    """Yield the distributions that provide the modules of an id."""
    point = registration(spec).entry_point
    yield from (package for module, package in _PHYSICS.items() if str(point).startswith(f"{module}."))
    brought = packages_distributions()
    for module in {*(name.partition(".")[0] for name in spec.registering_modules), *entry_point_modules(spec)}:
        for distribution in set(brought.get(module, ())) - _RECORDED:
            yield distribution
            yield from _engines(distribution)


def _engines(distribution: str) -> Iterator[str]:
    """Yield the installed physics engines that a distribution requires: numbers depend on them too."""
    for requirement in requires(distribution) or ():
        name = distribution_name(requirement)
        if name in _ENGINES and "extra ==" not in requirement:
            with suppress(PackageNotFoundError):
                version(name)
                yield name


def _meanings(space: Space) -> list[str]:
    """Return the texts to write for a space: one per element or value, or a single one if there are many."""
    match space:
        case Box(shape=(count,)) if count <= MOST_MEANINGS:
            return [f"{TO_WRITE}element {index}{_bounds(space, index)}" for index in range(count)]
        case Discrete(n=count) if count <= MOST_MEANINGS:
            return [f"{TO_WRITE}value {space.start + index}" for index in range(count)]
        case _:
            return [f"{TO_WRITE}what the parts of it are, with units, axes and signs"]


def _value_names(space: Space, meanings: tuple[str, ...]) -> list[str]:
    """Return the names of a Discrete's values if the simulator has them, else the texts to write."""
    if isinstance(space, Discrete) and len(meanings) == space.n <= MOST_MEANINGS:
        return list(meanings)
    return _meanings(space)


def _bounds(space: Box, index: int) -> str:
    low, high = np.broadcast_to(space.low, space.shape)[index], np.broadcast_to(space.high, space.shape)[index]
    return f", from {low:g} to {high:g}" if np.isfinite([low, high]).all() else ""


def _meaning_form(space: Space) -> str:
    single = isinstance(space, Discrete) or (isinstance(space, Box) and len(space.shape) == 1)
    size = space.n if isinstance(space, Discrete) else space.shape[0] if isinstance(space, Box) and single else 0
    return "one meaning for each" if single and size <= MOST_MEANINGS else "sentences"


def describe_space(space: Space) -> str:
    """Return a short description of a space."""
    match space:
        case Discrete():
            return f"Discrete of {space.n} values"
        case Box():
            return f"Box of shape {space.shape} and {space.dtype}"
        case _:
            return str(to_schema(space)["type"])


def idle_action(space: Space, meanings: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    """Return a guess of the idle action as JSON: the action named no-op, else zeros clipped to the bounds."""
    match space:
        case Discrete():
            named = [index for index, meaning in enumerate(meanings) if meaning.lower() in {"noop", "no-op"}]
            return space.start + (named[0] if named and len(meanings) == space.n else 0)
        case Box():
            nearest = np.clip(np.zeros(space.shape), space.low, space.high)
            return (nearest if np.dtype(space.dtype).kind == "f" else nearest.astype(int)).tolist()
        case MultiDiscrete():
            return list(space.start)
        case MultiBinary():
            return np.zeros(space.shape, int).tolist()
        case Text():
            return space.characters[:1] * space.min_length
        case Tuple():
            return [idle_action(part, ()) for part in space.spaces]
        case Dict():
            return {name: idle_action(part, ()) for name, part in space.spaces}


def _success_line(spec: EnvironmentSpec, info: Mapping[str, Any]) -> str:
    """Return the TOML line of a pack's success rule, or a commented template."""
    if spec.success:
        return f"success = {_toml({name: value for name, value in asdict(spec.success).items() if value}, wide=True)}"
    flags = [key for key, value in info.items() if isinstance(value, bool | np.bool_)]
    key = flags[0] if flags else "is_success"
    comment = f"info has {', '.join(info)} after {STEPS} random steps" if info else "info was empty or not looked at"
    line = _toml({"rule": "info", "key": key, "meaning": f"{TO_WRITE}what success is"}, wide=True)
    return f"# success, where there is one ({comment}):\n# success = {line}"


def _toml(value: Any, *, wide: bool = False) -> str:  # noqa: ANN401 - what a spec holds
    """Return a value as TOML: strings and numbers as in JSON, tables inline, each sentence on a line."""
    match value:
        case dict():
            pairs = ", ".join(f"{_key(name)} = {_toml(part, wide=True)}" for name, part in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list() | tuple() if not wide and any(isinstance(part, str) and " " in part for part in value):
            return "[\n" + "".join(f"    {_toml(part)},\n" for part in value) + "]"
        case list() | tuple():
            return f"[{', '.join(_toml(part, wide=True) for part in value)}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
