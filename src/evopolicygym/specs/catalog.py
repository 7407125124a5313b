"""The catalog of environments: specs by name, read and validated from TOML.

A built-in name is a file of ``specs/``. Other distributions add names through the entry-point group
``evopolicygym.environments``. An entry point has the name of a file; its value is a package with ``NAME.toml``, or an
attribute with the path of a TOML file. A package is located without running its code, and no simulator is imported.
"""

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from evopolicygym.core.decoding import DecodingProblem, Undecodable, decoder
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.registry import entry_points_of
from evopolicygym.core.task import Anchor, EnvironmentSpec, Success, SuccessRule, TaskKind, TaskText, TerseTexts
from evopolicygym.core.world import World, decode_world, name_world

SUFFIX = ".toml"
EARLIER = "earlier_fingerprints.toml"
"""The file of ``specs/`` that is no spec."""
GROUP = "evopolicygym.environments"
"""Entry-point group of environments in other distributions."""

_ANCHORS = ("random_anchor", "idle_anchor", "reference_anchor", "degenerate_anchor")
_NOT_HASHED = frozenset({"family", "kind", "extra", "packages", "pack", "degenerate_policy", *_ANCHORS})
"""Fields that no score depends on."""
_KINDS_OF_ANY_RECORD, _KINDS = "'tuning', 'synthesis' or ''", "'tuning' or 'synthesis'"
"""Kinds as a message lists them: no spec is of the kind that records of the paper's release have."""
_STANDARD = ("world", None)
"""The field that older runs lack."""

_PARTS = {"success": Success, "terse": TerseTexts, **dict.fromkeys(_ANCHORS, Anchor)}
"""Fields that are TOML tables."""


@dataclass(frozen=True, slots=True)
class _SpecFile(EnvironmentSpec):
    """The content of a spec file; a run chooses which of its texts are shown, and records only those."""

    kind: Literal["tuning", "synthesis"]  # type: ignore[assignment] # the kinds that a file may name
    terse: TerseTexts | None = None
    worlds: dict[str, World] = field(default_factory=dict)

    def spec(self) -> EnvironmentSpec:
        """Return the spec without the other fields of its file."""
        values = {field.name: getattr(self, field.name) for field in fields(EnvironmentSpec)}
        return EnvironmentSpec(**{**values, "kind": TaskKind(self.kind)})


def names() -> list[str]:
    """Return every name that ``load`` knows, sorted; those of other distributions included."""
    return sorted(_built_in().keys() | entry_points_of(GROUP).keys())


def is_built_in(name: str) -> bool:
    """Return whether a spec of this name comes with this package, and not with another distribution."""
    return name in _built_in()


def load(name_or_path: str | Path, text: TaskText = TaskText.FULL) -> EnvironmentSpec:
    """Return the spec of a name, or of a path to a ``.toml`` file, whose stem is then the name.

    The modules that such a file names can be imported from its directory. Raises ``UnknownName``, or ``UsageError`` if
    the file is not a spec or lacks the requested texts.
    """
    name = str(name_or_path)
    if name.endswith(".toml"):
        spec = _read(Path(name), Path(name).stem, text)
        import_from(Path(name).parent, spec)
        return spec
    built_in = _built_in()
    if name in built_in:
        return _read(built_in[name], name, text)
    outside = entry_points_of(GROUP)
    if name in outside:
        return _read(file_of(outside[name], "environment"), name, text)
    raise UnknownName("environment", name, built_in.keys() | outside.keys())


def worlds_of(name_or_path: str | Path) -> dict[str, World]:
    """Return the worlds that ship with a spec, by name; raise as ``load`` does."""
    name = str(name_or_path)
    if name.endswith(".toml"):
        file: Traversable = Path(name)
    elif name in _built_in():
        file = _built_in()[name]
    else:
        file = file_of(entry_points_of(GROUP)[name], "environment")
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return {key: decode_world(world, key, f"{file}: worlds.{key}") for key, world in document.get("worlds", {}).items()}


def import_from(directory: Path, spec: EnvironmentSpec) -> None:
    """Append a directory to Python's path if only it holds the modules that register a spec.

    This applies to the current process and its child processes.
    """
    path = directory.resolve()
    for name in spec.registering_modules:
        module = name.partition(".")[0]
        own = {str(path / f"{module}.py"), str(path / module / "__init__.py")}
        module_spec = PathFinder.find_spec(module, [entry for entry in sys.path if entry])
        if not any(map(os.path.isfile, own)) or (module_spec and os.path.realpath(module_spec.origin or "") not in own):
            continue
        if module_spec is None:
            sys.path.append(str(path))
        if str(path) not in (given := os.environ.get("PYTHONPATH", "")).split(os.pathsep):  # which children search
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (given, str(path))))


def hand_down(module: str) -> None:
    """Let child processes import a module that this process has imported from beside a script or a notebook."""
    top = sys.modules.get(module.partition(".")[0])
    for path in (*getattr(top, "__path__", ()), getattr(top, "__file__", None) or ""):
        directory, given = str(Path(path).resolve().parent), os.environ.get("PYTHONPATH", "")
        if path and "site-packages" not in directory and directory not in given.split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (given, directory)))


def decode(document: Mapping[str, Any], name: str, source: str, shown: TaskText = TaskText.FULL) -> EnvironmentSpec:
    """Return the spec of a TOML document with the texts to show.

    Raises ``UsageError`` with ``source`` and all problems.
    """
    extra = [f"the field 'name' must go; a spec's name is its file's, here {name!r}."] if "name" in document else []
    try:
        text = json.dumps({**document, "name": name}).encode()
        file = decoder(_SpecFile, allow_inf_nan=False).json(text, strict=True)
    except Undecodable as error:
        raise UsageError(_format_problems(source, [*extra, *_complaints(error.problems)])) from error
    except TypeError as error:
        raise UsageError(f"{source}: expected no date or time.") from error
    if extra:
        raise UsageError(_format_problems(source, extra))
    _check_values(file, source)
    for world_name, world in file.worlds.items():
        name_world(world, world_name)
    if shown is TaskText.FULL:
        return file.spec()
    if file.terse is None:
        raise UsageError(
            f"{source} has no text {shown}. Use --text {TaskText.FULL}, or add a table [{shown}] at the end of that "
            f"file with {', '.join(field.name for field in fields(TerseTexts))}."
        )
    return file.terse.in_place_of(file.spec())


def spec_sha256(spec: EnvironmentSpec) -> str:
    """Return the SHA-256, in hexadecimal, of the fields that a run's scores depend on.

    It covers the texts, which an agent reads, and the name, from which cases are derived. It excludes anchors, family,
    kind, extra and packages, whose versions a run records separately.
    """
    hashed = {key: value for key, value in asdict(spec).items() if key not in _NOT_HASHED and (key, value) != _STANDARD}
    canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


@cache
def shipped_fingerprints(name: str) -> frozenset[str]:
    """Return the fingerprints under which a task of this name ships, or shipped: with each of its texts.

    Empty if none ships. Specs of other distributions count, as they are installed and not a record's.
    """
    if name not in names():
        return frozenset()
    fingerprints = {spec_sha256(load(name))}
    with suppress(UsageError):  # it may have no other text
        fingerprints.add(spec_sha256(load(name, TaskText.TERSE)))
    return frozenset(fingerprints | _earlier_fingerprints().get(name, frozenset()))


@cache
def _earlier_fingerprints() -> Mapping[str, frozenset[str]]:
    """Return fingerprints by name under which earlier versions shipped a task, where only its texts changed since."""
    file = files("evopolicygym.specs") / EARLIER
    return {name: frozenset(hashes) for name, hashes in tomllib.loads(file.read_text(encoding="utf-8")).items()}


def _built_in() -> dict[str, Traversable]:
    specs = files("evopolicygym.specs")
    return {
        file.name.removesuffix(SUFFIX): file
        for file in specs.iterdir()
        if file.name.endswith(SUFFIX) and file.name != EARLIER
    }


def _read(file: Traversable, name: str, text: TaskText) -> EnvironmentSpec:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} can't be read ({error.strerror}): expected a path to a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}.") from error
    return decode(document, name, str(file), text)


def _format_problems(source: str, complaints: list[str]) -> str:
    """Return a message with all problems of a source, one per line if there are several."""
    return f"{source}: {complaints[0]}" if len(complaints) == 1 else "\n  ".join([f"{source}:", *complaints])


def _complaints(problems: Sequence[DecodingProblem]) -> Iterator[str]:
    """Yield a sentence per problem: unknown fields first, since a misspelt field is also a missing one."""
    yield from _unknown([problem.path for problem in problems if problem.is_unknown])
    if missing := [problem.where for problem in problems if problem.is_missing]:
        first, *more = map(repr, missing)
        yield f"the field {first} is missing" + f", and so are: {', '.join(more)}" * bool(more) + "."
    for problem in problems:
        if not problem.is_unknown and not problem.is_missing:
            message = problem.message.replace(_KINDS_OF_ANY_RECORD, _KINDS)
            yield f"the field {problem.where!r} holds {problem.found!r}: {message}."


def _unknown(paths: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield a sentence per unknown field; the known ones are listed once per table."""
    for index, path in enumerate(paths):
        owner = _PARTS.get(path[0], _SpecFile) if len(path) > 1 else _SpecFile
        known = [field.name for field in fields(owner) if field.name != "name"]
        near = get_close_matches(path[-1], known, n=1)
        last = path[:-1] not in [other[:-1] for other in paths[index + 1 :]]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        yield f"there is no field {'.'.join(path)!r}.{hint}" + f" Known: {', '.join(known)}." * last


def _check_values(spec: _SpecFile, source: str) -> None:
    if not spec.id:
        raise UsageError(f"{source}: the field 'id' must not be empty.")
    if spec.max_steps < 1:
        raise UsageError(f"{source}: invalid max_steps {spec.max_steps}: expected >= 1.")
    if spec.success is not None and spec.success.rule.has_key != bool(spec.success.key):
        rules = " and ".join(repr(rule.value) for rule in SuccessRule if rule.has_key)
        raise UsageError(f"{source}: the field 'success.key' belongs to the rules {rules}, and to those only.")
    if spec.terse and bool(spec.terse.success) != (spec.success is not None):
        raise UsageError(
            f"{source}: the field 'terse.success' belongs to environments with 'success', and to those only."
        )


def success_of(success: Success | None) -> str:
    """Return a short form of a success rule, without the rule on crashes, which returns reflect."""
    if success is None:
        return ""
    rule = SuccessRule.INFO if success.rule is SuccessRule.INFO_WITHOUT_CRASH else success.rule
    return " ".join(filter(None, (rule.value, success.key)))


def file_of(point: EntryPoint, kind: str) -> Traversable:
    """Return the file of an entry point, which may not exist.

    Raises ``UsageError`` with the ``kind``, such as ``environment``, if it can't be loaded or is not a path, whatever
    its code raises.
    """
    try:
        file = point.load() if point.attr else _directory(point.module) / f"{point.name}{SUFFIX}"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UsageError(f"The {kind} {point.name!r} ({point.value}) can't be loaded: {reason}.") from error
    if isinstance(file, str | Path | Traversable):
        return Path(file) if isinstance(file, str) else file
    raise UsageError(
        f"The {kind} {point.name!r} ({point.value}) is a {type(file).__name__}; an entry point of {point.group} must "
        f"be a package that holds {point.name}{SUFFIX}, or the path of a TOML file as text, Path or package resource."
    )


def _directory(module: str) -> Path:
    spec = find_spec(module)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin or "").parent


def anchor_line(key: str, anchor: Anchor) -> str:
    """Return an anchor as a TOML line: six digits of its mean, three of its standard error, four of its success."""
    rate = "" if anchor.success_rate is None else f", success_rate = {anchor.success_rate:.4g}"
    return (
        f"{key} = {{ mean = {anchor.mean:.6g}, standard_error = {anchor.standard_error:.3g}, "
        f"episodes = {anchor.episodes}{rate} }}\n"
    )


def spec_lines(anchors: Mapping[str, Anchor], degenerate_policy: str = "") -> str:
    """Return the anchors' lines of a spec, to be placed before its tables."""
    policy = f"degenerate_policy = {json.dumps(degenerate_policy)}\n" if degenerate_policy else ""
    return "".join(anchor_line(f"{kind}_anchor", anchor) for kind, anchor in anchors.items()) + policy


def pack_lines(name: str, max_steps: int, anchors: Mapping[str, Anchor], degenerate_policy: str = "") -> str:
    """Return the anchors' table of a pack's task."""
    policy = f"degenerate_policy = {json.dumps(degenerate_policy)}\n" if degenerate_policy else ""
    lines = "".join(anchor_line(kind, anchor) for kind, anchor in anchors.items())
    return f"[anchors.{json.dumps(name)}]\nmax_steps = {max_steps}\n{lines}{policy}"
