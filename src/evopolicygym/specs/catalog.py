"""The catalog of environments: names to specs, read and validated from TOML.

A built-in name is a file of ``specs/``. Other distributions add names through the entry-point group
``evopolicygym.environments``, as ``outside.py`` says. How a spec becomes something that can be stepped is described in
``environment.py``; no simulator is imported here, so that listing is quick.
"""

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from importlib.machinery import PathFinder
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evopolicygym.core.decoding import DecodingProblem, Undecodable, decoder
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.task import Anchor, EnvironmentSpec, Success, SuccessRule, TaskText, TerseTexts
from evopolicygym.specs.outside import brought, file_of

GROUP = "evopolicygym.environments"
"""The entry-point group by which other distributions add environments."""

_ANCHORS = ("random_anchor", "idle_anchor", "reference_anchor", "degenerate_anchor")
_NOT_HASHED = frozenset({"family", "kind", "extra", "packages", "pack", "degenerate_policy", *_ANCHORS})
"""Fields that no score of a run depends on: they group, install, fingerprint or compare."""

_PARTS = {"success": Success, "terse": TerseTexts, **dict.fromkeys(_ANCHORS, Anchor)}
"""Fields that are tables of their own."""


@dataclass(frozen=True, slots=True)
class _SpecFile(EnvironmentSpec):
    """A spec as its file holds it. Which of its texts are shown, each run decides, and records those alone."""

    terse: TerseTexts | None = None

    def spec(self) -> EnvironmentSpec:
        """Return the spec without what its file holds besides."""
        return EnvironmentSpec(**{one.name: getattr(self, one.name) for one in fields(EnvironmentSpec)})


def names() -> list[str]:
    """Return every name that ``load`` knows, sorted; those of other distributions included."""
    return sorted(_built_in().keys() | brought(GROUP).keys())


def load(asked: str | Path, text: TaskText = TaskText.FULL) -> EnvironmentSpec:
    """Return the spec of a name, or of a path to a ``.toml`` file, whose stem is then the name.

    The modules that such a file names can be imported from beside it. Raises ``UnknownName``, or ``UsageError`` where
    the file can't be read as a spec, or has no such texts.
    """
    name = str(asked)
    if name.endswith(".toml"):
        spec = _read(Path(asked), Path(asked).stem, text)
        import_from(Path(asked).parent, spec)
        return spec
    built_in = _built_in()
    if name in built_in:
        return _read(built_in[name], name, text)
    outside = brought(GROUP)
    if name in outside:
        return _read(file_of(outside[name], "environment"), name, text)
    raise UnknownName("environment", name, built_in.keys() | outside.keys())


def import_from(directory: Path, spec: EnvironmentSpec) -> None:
    """Have the modules that register a spec imported from a directory, where they lie there and nowhere else.

    It is put at the end of Python's path here and in the processes that are started from here.
    """
    for name in spec.registering_modules:
        module = name.partition(".")[0]
        lies_there = (directory / f"{module}.py").is_file() or (directory / module / "__init__.py").is_file()
        if lies_there and PathFinder.find_spec(module, [place for place in sys.path if place]) is None:
            place = str(directory.resolve())
            sys.path.append(place)
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), place)))


def decode(document: Mapping[str, Any], name: str, source: str, shown: TaskText = TaskText.FULL) -> EnvironmentSpec:
    """Return the spec that a TOML document holds, with the texts that are to be shown.

    Raises ``UsageError`` naming ``source`` and all that is wrong.
    """
    named = [f"the field 'name' must go; a spec's name is its file's, here {name!r}."] if "name" in document else []
    try:
        text = json.dumps({**document, "name": name}).encode()
        file = decoder(_SpecFile, allow_inf_nan=False).json(text, strict=True)
    except Undecodable as error:
        raise UsageError(_refusal(source, [*named, *_complaints(error.problems)])) from error
    except TypeError as error:
        raise UsageError(f"{source}: a date or time stands in it, and no field takes one.") from error
    if named:
        raise UsageError(_refusal(source, named))
    _refuse_nonsense(file, source)
    if shown is TaskText.FULL:
        return file.spec()
    if file.terse is None:
        raise UsageError(
            f"{source} has no text {shown}. Use --text {TaskText.FULL}, or add a table [{shown}] at the end of that "
            f"file with {', '.join(one.name for one in fields(TerseTexts))}."
        )
    return file.terse.in_place_of(file.spec())


def spec_sha256(spec: EnvironmentSpec) -> str:
    """Return the SHA-256, in hexadecimal, of all in a spec that a run's scores depend on.

    That includes the texts, because an agent reads them, and the name, because cases are derived from it. It excludes
    anchors, family, kind and extra, and the packages, whose versions a run records by themselves.
    """
    hashed = {key: value for key, value in asdict(spec).items() if key not in _NOT_HASHED}
    canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _built_in() -> dict[str, Traversable]:
    specs = files("evopolicygym.specs")
    return {file.name.removesuffix(".toml"): file for file in specs.iterdir() if file.name.endswith(".toml")}


def _read(file: Traversable, name: str, text: TaskText) -> EnvironmentSpec:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}. A path to a TOML file was expected.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}.") from error
    return decode(document, name, str(file), text)


def _refusal(source: str, complaints: list[str]) -> str:
    """Return all that is wrong with a source: beside its name, or a line each where it is more than one thing."""
    return f"{source}: {complaints[0]}" if len(complaints) == 1 else "\n  ".join([f"{source}:", *complaints])


def _complaints(problems: Sequence[DecodingProblem]) -> Iterator[str]:
    """Yield what is wrong: fields that there aren't, as a misspelt one is also a missing one, then the others."""
    yield from _unknown([problem.path for problem in problems if problem.is_unknown])
    if missing := [problem.where for problem in problems if problem.is_missing]:
        first, *more = map(repr, missing)
        yield f"the field {first} is missing" + f", and so are: {', '.join(more)}" * bool(more) + "."
    for problem in problems:
        if not problem.is_unknown and not problem.is_missing:
            yield f"the field {problem.where!r} holds {problem.found!r}: {problem.message}."


def _unknown(paths: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield a line for each field that there isn't; the known ones stand once for each table."""
    for place, path in enumerate(paths):
        owner = _PARTS.get(path[0], _SpecFile) if len(path) > 1 else _SpecFile
        known = [field.name for field in fields(owner) if field.name != "name"]
        near = get_close_matches(path[-1], known, n=1)
        last = path[:-1] not in [other[:-1] for other in paths[place + 1 :]]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        yield f"there is no field {'.'.join(path)!r}.{hint}" + f" Known: {', '.join(known)}." * last


def _refuse_nonsense(spec: _SpecFile, source: str) -> None:
    if spec.max_steps < 1:
        raise UsageError(f"{source}: the field 'max_steps' holds {spec.max_steps}: at least 1 is needed.")
    if spec.success is not None and spec.success.rule.has_key != bool(spec.success.key):
        rules = " and ".join(repr(rule.value) for rule in SuccessRule if rule.has_key)
        raise UsageError(f"{source}: the field 'success.key' belongs to the rules {rules}, and to those only.")
    if spec.terse and bool(spec.terse.success) != (spec.success is not None):
        raise UsageError(
            f"{source}: the field 'terse.success' belongs to environments with 'success', and to those only."
        )
