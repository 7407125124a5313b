"""A whole spec for an environment that has only an id: its texts are derived from what its simulator says of itself.

They are terse: a few sentences in words, spaces with names and bounds, the limit. What a pack says of a task stands in
place of what its docstring says. A run records what was derived, so that nothing is derived again for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evopolicygym.core.pack import Pack, PackTask, PackText, TaskAnchors, task_name
from evopolicygym.core.spaces import Box, Dict, Discrete, Space, Text, Tuple, from_schema
from evopolicygym.core.task import EnvironmentSpec, TaskKind
from evopolicygym.environments import docstring
from evopolicygym.environments.description import Description, describe
from evopolicygym.environments.draft import GUESSED_STEPS, MOST_MEANINGS, idle_action, shown_space

NO_FAMILY = "other"
UNKNOWN_REWARD = "A reward for each step, which the environment itself decides; the sum over an episode is what counts."
UNKNOWN_END = "The environment itself ends an episode."


def bare_spec(
    gymnasium_id: str, imports: tuple[str, ...] = (), arguments: Mapping[str, Any] | None = None, name: str = ""
) -> EnvironmentSpec:
    """Return what is known of an id before its simulator is asked; its texts are empty."""
    return EnvironmentSpec(
        name=name or task_name(gymnasium_id),
        id=gymnasium_id,
        family=NO_FAMILY,
        kind=TaskKind.SYNTHESIS,
        max_steps=0,
        objective="",
        reward="",
        termination="",
        observation=(),
        action=(),
        idle_action=None,
        imports=imports,
        arguments=dict(arguments or {}),
    )


def pack_spec(
    pack: Pack, task: PackTask, imports: tuple[str, ...] = (), arguments: Mapping[str, Any] | None = None
) -> EnvironmentSpec:
    """Return what a pack says of a task, before its simulator is asked."""
    bare = bare_spec(task.id, (*pack.imports, *imports), {**task.arguments, **(arguments or {})}, task.name)
    return replace(
        bare,
        family=pack.family,
        kind=task.kind,
        max_steps=task.max_steps or 0,
        extra=pack.extra,
        success=task.success,
        packages=pack.packages,
        pack="" if pack.is_beside_us else pack.name,
    )


def derived(spec: EnvironmentSpec, text: PackText | None = None) -> EnvironmentSpec:
    """Return a spec with all that its simulator has to say, which is asked for it.

    Raises ``UsageError`` where the id isn't known, isn't installed or has a space that no policy can be given, and
    ``EnvironmentFault`` where the simulator fails.
    """
    return completed(spec, describe(spec), text or PackText())


def completed(spec: EnvironmentSpec, said: Description, text: PackText) -> EnvironmentSpec:
    """Return a spec with the texts, the limit and the idle action that follow from a description."""
    seen, done = from_schema(said.observation_schema), from_schema(said.action_schema)
    read = docstring.read(said.docstring)
    steps = spec.max_steps or said.step_limit or GUESSED_STEPS
    end = text.termination or read.termination or UNKNOWN_END
    return replace(
        spec,
        max_steps=steps,
        objective=text.objective
        or read.objective
        or f"Play {spec.registered_id} so that the return is as high as can be.",
        reward=text.reward or read.reward or UNKNOWN_REWARD,
        termination=f"{end} Truncated after {steps} steps.",
        observation=(text.observation,) if text.observation else meanings(seen, read.observations),
        action=(text.action,) if text.action else meanings(done, said.action_meanings or read.actions),
        idle_action=idle_action(done, said.action_meanings),
    )


def anchored(spec: EnvironmentSpec, anchors: TaskAnchors | None) -> EnvironmentSpec:
    """Return a spec with the anchors of its task, where they were measured under its limit."""
    if anchors is None or anchors.max_steps != spec.max_steps:
        return spec
    return replace(
        spec,
        random_anchor=anchors.random,
        idle_anchor=anchors.idle,
        reference_anchor=anchors.reference,
        degenerate_anchor=anchors.degenerate,
        degenerate_policy=anchors.degenerate_policy,
    )


def meanings(space: Space, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a space's elements or values where there is one for each, or else what the space is."""
    match space:
        case Discrete(n=count) | Box(shape=(count,)) if len(named) == count <= MOST_MEANINGS:
            return named
        case Dict():
            return (f"A dict of {', '.join(f'{name}: {_in_words(part)}' for name, part in space.spaces)}.",)
        case Tuple():
            return (f"A tuple of {', '.join(map(_in_words, space.spaces))}.",)
        case _:
            return (f"{_in_words(space)[:1].upper()}{_in_words(space)[1:]}.",)


def _in_words(space: Space) -> str:
    match space:
        case Text():
            return f"a text of at most {space.max_length} characters"
        case Box() if isinstance(space.low, float) and isinstance(space.high, float):
            return f"{shown_space(space)} from {space.low:g} to {space.high:g}"
        case _:
            return shown_space(space)
