"""The catalog of environments: names to specs, read and validated from TOML.

A built-in name is a file of ``specs/``. Other distributions add names through the entry-point group
``evopolicygym.environments``: each entry point is a package that holds ``NAME.toml``, or an attribute that holds the
path of a TOML file (text, ``Path`` or a package resource). How a spec becomes something that can be stepped is
described in ``environment.py``; no simulator is imported here, so that listing is quick.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import Any

from evopolicygym.core.decoding import DecodingProblem, Undecodable, decoder
from evopolicygym.core.environment import Anchor, EnvironmentSpec, Success, SuccessRule
from evopolicygym.core.errors import UnknownName, UsageError

GROUP = "evopolicygym.environments"
"""The entry-point group by which other distributions add environments."""

_ANCHORS = ("random_anchor", "idle_anchor", "reference_anchor", "degenerate_anchor")
_NOT_HASHED = frozenset({"family", "kind", "extra", "packages", "degenerate_policy", *_ANCHORS})
"""Fields that no score of a run depends on: they group, install, fingerprint or compare."""

_PARTS = {"success": Success, **dict.fromkeys(_ANCHORS, Anchor)}
"""Fields that are tables of their own."""


def names() -> list[str]:
    """Return every name that ``load`` knows, sorted; those of other distributions included."""
    return sorted(_built_in().keys() | _outside().keys())


def load(asked: str | Path) -> EnvironmentSpec:
    """Return the spec of a name, or of a path to a ``.toml`` file, whose stem is then the name.

    Raises ``UnknownName``, or ``UsageError`` where the file can't be read as a spec.
    """
    text = str(asked)
    if text.endswith(".toml"):
        return _read(Path(asked))
    built_in, outside = _built_in(), _outside()
    if text in built_in:
        return _read(built_in[text])
    if text in outside:
        return _read(_file_of(outside[text]), text)
    raise UnknownName("environment", text, built_in.keys() | outside.keys())


def decode(document: Mapping[str, Any], name: str, source: str) -> EnvironmentSpec:
    """Return the spec that a TOML document holds; raise ``UsageError`` naming ``source`` and all that is wrong."""
    named = [f"the field 'name' must go; a spec's name is its file's, here {name!r}."] if "name" in document else []
    try:
        text = json.dumps({**document, "name": name}).encode()
        spec = decoder(EnvironmentSpec, allow_inf_nan=False).json(text, strict=True)
    except Undecodable as error:
        raise UsageError(_refusal(source, [*named, *_complaints(error.problems)])) from error
    except TypeError as error:
        raise UsageError(f"{source}: a date or time stands in it, and no field takes one.") from error
    if named:
        raise UsageError(_refusal(source, named))
    _refuse_nonsense(spec, source)
    return spec


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


def _outside() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _file_of(point: EntryPoint) -> Traversable:
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The environment {point.name!r} ({point.value}) can't be loaded: {error}.") from error
    if isinstance(found, ModuleType):
        return files(found) / f"{point.name}.toml"
    if isinstance(found, str | Path | Traversable):
        return Path(found) if isinstance(found, str) else found
    raise UsageError(
        f"The environment {point.name!r} ({point.value}) is a {type(found).__name__}; an entry point of {GROUP} must "
        f"be a package that holds {point.name}.toml, or the path of a TOML file as text, Path or package resource."
    )


def _read(file: Traversable, name: str = "") -> EnvironmentSpec:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}. A path to a TOML file was expected.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}.") from error
    return decode(document, name or file.name.removesuffix(".toml"), str(file))


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
        owner = _PARTS.get(path[0], EnvironmentSpec) if len(path) > 1 else EnvironmentSpec
        known = [field.name for field in fields(owner) if field.name != "name"]
        near = get_close_matches(path[-1], known, n=1)
        last = path[:-1] not in [other[:-1] for other in paths[place + 1 :]]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        yield f"there is no field {'.'.join(path)!r}.{hint}" + f" Known: {', '.join(known)}." * last


def _refuse_nonsense(spec: EnvironmentSpec, source: str) -> None:
    if spec.max_steps < 1:
        raise UsageError(f"{source}: the field 'max_steps' holds {spec.max_steps}: at least 1 is needed.")
    if spec.success is not None and spec.success.rule.has_key != bool(spec.success.key):
        rules = " and ".join(repr(rule.value) for rule in SuccessRule if rule.has_key)
        raise UsageError(f"{source}: the field 'success.key' belongs to the rules {rules}, and to those only.")
