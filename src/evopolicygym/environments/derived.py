"""Derives a complete spec for an environment that has only an id, from its simulator's spaces, limit and docstring.

The texts are terse: a few sentences, spaces with names and bounds, the limit. A pack's text of a task replaces its
docstring. A run records the derived spec, so that it is not derived again. Docstrings of simulator families are alike:
sections with headings, tables or lists of elements and values. Sentences with numbers or formulas, links, code and
drawings are dropped.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack, PackTask, PackText, TaskAnchors, task_name
from evopolicygym.core.spaces import Box, Dict, Discrete, Space, Text, Tuple, from_schema
from evopolicygym.core.task import EnvironmentSpec, TaskKind
from evopolicygym.environments.description import Description, cached_description, describe
from evopolicygym.environments.draft import GUESSED_STEPS, MOST_MEANINGS, describe_space, idle_action
from evopolicygym.packs.installation import needed

HEADING = re.compile(r"^#{1,4}\s*(.+?)\s*#*\s*$", re.MULTILINE)
FENCED = re.compile(r"```.*?```|\$\$.*?\$\$|<[^>\n]+>|!\[[^\]]*\]\([^)]*\)", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)|https?://\S*[^\s.,;)]")
FORMULA = re.compile(r"[=^\\|{}<>~$]|\d|\barXiv\b")
OF_CODE = re.compile(
    r"(?:keyword )?arg(?:ument)?s|param(?:eter)?s|attributes|returns?|yields|raises|examples?|usage|see also",
    re.IGNORECASE,
)
"""Headings of sections that document code."""
FIELD = re.compile(r"\s*:(?:param|type|arg|returns?|rtype|raises)\b")
UNDERLINE = re.compile(r"\s*-{3,}\s*")
LONG = 10_000
"""More than any line is indented."""
BARE = "="
"""Replaces a bare URL, so that its sentence is dropped."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"*`-])")
ITEM = re.compile(r"^\s*[-*]\s+`?(\d+)`?\s*[:=]\s*(.+?)\s*$", re.MULTILINE)
NAMED = len(("number", "name", "meaning"))
"""Columns of a table with a meaning for each name."""
MOST_SENTENCES, MOST_CHARACTERS = 6, 900
DESCRIPTION = ("description",)
REWARD = ("rewards", "reward", "reward function")
TERMINATION = ("episode end", "episode termination", "termination", "episode ends", "episode end and truncation")
ACTION = ("action space", "actions")
OBSERVATION = ("observation space", "observations", "observation encoding")


@dataclass(frozen=True, slots=True)
class DocstringText:
    """Texts parsed from a docstring; empty if it has none in plain words."""

    objective: str
    reward: str
    termination: str
    observations: tuple[str, ...]
    """Names of the elements of an observation, in order."""
    actions: tuple[str, ...]
    """Names of the elements or values of an action, in order."""


def read_docstring(docstring: str) -> DocstringText:
    """Return the texts of a docstring; what it says of the constructor's arguments is no text of the task."""
    sections = dict(_sections(_without_arguments(docstring)))
    return DocstringText(
        objective=_words(_first(sections, DESCRIPTION) or sections.get("", "")),
        reward=_words(_first(sections, REWARD)),
        termination=_words(_first(sections, TERMINATION)),
        observations=_names(_first(sections, OBSERVATION)),
        actions=_names(_first(sections, ACTION)),
    )


def _without_arguments(docstring: str) -> str:
    """Return a docstring without the sections that document code, in Google's, NumPy's and Sphinx's style."""
    kept, lines, indent = list[str](), docstring.splitlines(), -1
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        depth = len(line) - len(line.lstrip())
        if UNDERLINE.fullmatch(after):  # NumPy's sections end at the next one
            indent = LONG if OF_CODE.fullmatch(line.strip()) else -1
        elif HEADING.match(line) or (line.strip() and depth <= indent < LONG):
            indent = -1
        if indent < 0 and (FIELD.match(line) or (line.rstrip().endswith(":") and OF_CODE.fullmatch(line.strip(" :")))):
            indent = depth
        if indent < 0:
            kept.append(line)
    return "\n".join(kept)


def _sections(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield each section's heading in lower case and its text; text before the first heading has an empty one."""
    parts = HEADING.split(FENCED.sub("", docstring))
    yield "", parts[0]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        yield heading.lower().strip("*: "), text


def _first(sections: Mapping[str, str], headings: tuple[str, ...]) -> str:
    return next((sections[heading] for heading in headings if heading in sections), "")


def _words(text: str) -> str:
    """Return the first sentences of a text without numbers, formulas and links."""
    plain = LINK.sub(lambda match: BARE if match[1] is None else match[1], re.sub(r"[*`\"]", "", text))
    kept: list[str] = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", plain):
        sentences = SENTENCE.split(re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", " ".join(paragraph.split())))
        kept += [line for line in sentences if line.endswith((".", "!")) and not FORMULA.search(line)]
    summary = ""
    for sentence in kept[:MOST_SENTENCES]:
        if len(summary) + len(sentence) < MOST_CHARACTERS:
            summary = f"{summary} {sentence}".strip()
    return summary


def _names(text: str) -> tuple[str, ...]:
    """Return the names in a table or list whose items are numbered from 0 without a gap; else none."""
    cells = (line.strip().strip("|").split("|") for line in text.splitlines() if line.count("|") > 1)
    rows = ([cell.replace("`", "").strip(" *") for cell in row] for row in cells)
    numbered = [(row[0], row[-1] if len(row) == NAMED else row[1]) for row in rows if row[0].isdigit()]
    numbered = numbered or [(match[1], match[2]) for match in ITEM.finditer(text)]
    numbers = [int(number) for number, _ in numbered]
    return tuple(name for _, name in numbered) if numbers == list(range(len(numbers))) else ()


NO_FAMILY = "other"
UNKNOWN_REWARD = "A reward for each step, which the environment itself decides; the sum over an episode is what counts."
UNKNOWN_END = "The environment itself ends an episode."


def bare_spec(
    gymnasium_id: str, imports: tuple[str, ...] = (), arguments: Mapping[str, Any] | None = None, name: str = ""
) -> EnvironmentSpec:
    """Return a spec of an id without texts, before its simulator is inspected."""
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
    """Return a spec with a pack's data of a task, before its simulator is inspected."""
    bare = bare_spec(task.id, (*pack.imports, *imports), {**task.arguments, **(arguments or {})}, task.name)
    return replace(
        bare,
        family=pack.family,
        kind=task.kind,
        max_steps=task.max_steps or 0,
        extra=pack.extra,
        idle_action=task.idle_action,
        success=task.success,
        packages=pack.packages,
        pack="" if pack.is_beside_us else pack.name,
    )


def derive_spec(spec: EnvironmentSpec, text: PackText | None = None) -> EnvironmentSpec:
    """Return a spec completed from its simulator's description.

    Raises ``UsageError`` if the id is unknown, isn't installed or has an unsupported space, and ``EnvironmentFault`` if
    the simulator fails.
    """
    return complete_spec(spec, describe(spec), text or PackText())


def complete_spec(spec: EnvironmentSpec, description: Description, text: PackText) -> EnvironmentSpec:
    """Return a spec with the texts, the limit and the idle action that follow from a description."""
    observation_space, done = from_schema(description.observation_schema), from_schema(description.action_schema)
    parsed = read_docstring(description.docstring)
    steps = spec.max_steps or description.step_limit or GUESSED_STEPS
    end = text.termination or parsed.termination or UNKNOWN_END
    return replace(
        spec,
        max_steps=steps,
        objective=text.objective
        or parsed.objective
        or f"Play {spec.registered_id} so that the return is as high as can be.",
        reward=text.reward or parsed.reward or UNKNOWN_REWARD,
        termination=f"{end} Truncated after {steps} steps.",
        observation=(text.observation,) if text.observation else meanings(observation_space, parsed.observations),
        action=(text.action,) if text.action else meanings(done, description.action_meanings or parsed.actions),
        idle_action=idle_action(done, description.action_meanings) if spec.idle_action is None else spec.idle_action,
    )


def pack_environment(
    pack: Pack, task: PackTask, imports: tuple[str, ...] = (), arguments: Mapping[str, Any] | None = None
) -> EnvironmentSpec:
    """Return a task of a pack with its texts, limit and anchors.

    Raises ``UsageError`` if the pack isn't installed or a module is unknown, and the errors of ``describe``.
    """
    own = None if pack.is_beside_us else needed(pack)
    if own is None and (missing := [module for module in imports if find_spec(module.partition(".")[0]) is None]):
        raise UsageError(f"Unknown module {missing[0]} in --import: it is not on Python's path.")
    spec = pack_spec(pack, task, imports, arguments)
    complete = complete_spec(spec, cached_description(spec, own), task.text)
    return complete if arguments else add_anchors(complete, task.anchors)  # anchors don't hold for other arguments


def add_anchors(spec: EnvironmentSpec, anchors: TaskAnchors | None) -> EnvironmentSpec:
    """Return a spec with the anchors of its task if they were measured with its step limit."""
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


def meanings(space: Space, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a space's elements or values if they match in number, else a sentence about the space."""
    match space:
        case Discrete(n=count) | Box(shape=(count,)) if len(names) == count <= MOST_MEANINGS:
            return names
        case Dict():
            return (f"A dict of {', '.join(f'{name}: {_describe_part(part)}' for name, part in space.spaces)}.",)
        case Tuple():
            return (f"A tuple of {', '.join(map(_describe_part, space.spaces))}.",)
        case _:
            return (f"{_describe_part(space)[:1].upper()}{_describe_part(space)[1:]}.",)


def _describe_part(space: Space) -> str:
    match space:
        case Text():
            return f"a text of at most {space.max_length} characters"
        case Box() if isinstance(space.low, float) and isinstance(space.high, float):
            return f"{describe_space(space)} from {space.low:g} to {space.high:g}"
        case _:
            return describe_space(space)
