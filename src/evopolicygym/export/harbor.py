"""Environments as Harbor tasks (task schema 1.4): a directory each, with the judge in a container beside the agent's.

The verifier has a container of its own, which Harbor starts when the agent's is gone.

``harbor_template/`` has the files with ``{{names}}`` in braces for what differs between environments. The caller writes
the reference policy, which Harbor's oracle submits, into the directory of the solution.

The judge's image installs this package from a wheel, which the task brings along, and the versions that are installed
here: a task must play as it does here, and may be built where no index has the package.
"""

import base64
import hashlib
import io
import json
import platform
import re
import shlex
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.version import __version__

ORGANISATION = "evopolicygym"
AGENT_S, SCORING_S = 14_400.0, 10_800.0
"""Harbor's limits for an agent and for the score: validation plays every submission, which may take hours."""
MARGIN_S = 60
"""Seconds before Harbor's limit at which the wait for the score is given up, so that the record can be kept."""
LIBRARIES = ("numpy", "scipy")
"""Libraries of policies, which the agent's container has as well."""
SOLUTION = Path("solution", "system")
ENVIRONMENT, JUDGE, TESTS = Path("environment"), Path("environment", "judge"), Path("tests")
COMPOSE = ENVIRONMENT / "docker-compose.yaml"
CONTEXTS: Mapping[Path, str] = {ENVIRONMENT: "agent", JUDGE: "judge", TESTS: "verifier"}
"""What an image is built from, and how its name ends."""
IMAGE = re.compile(r"[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+")
DIGITS = 12
"""Digits of a digest in a tag."""
SCRIPT = "images.sh"
"""The file beside tasks that builds their images."""
SCRIPT_HEAD = """\
#!/bin/sh
# Builds the images of these tasks: sh images.sh. With the word push, it pushes each as well: sh images.sh push.
set -e
cd "$(dirname "$0")"
action=${1:-build}
image() {
    ${DOCKER:-docker} build --tag "$1" "$2"
    [ "$action" != push ] || ${DOCKER:-docker} push "$1"
}
"""
EXECUTABLE = frozenset({".sh"})
PACKAGE = "evopolicygym"
WHEEL = f"{PACKAGE}-{__version__}-py3-none-any.whl"
INFORMATION = f"{PACKAGE}-{__version__}.dist-info"
INSTALL = "Install it by pip install -e . in its checkout."
FILE_TIME = (2020, 1, 1, 0, 0, 0)
"""Time of every file in the wheel, so that the wheel is reproducible."""
CACHE = "__pycache__"
REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
"""The start of a requirement: a name and its extras."""
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task on disk."""

    name: str
    """``ORGANISATION/NAME``."""
    directory: Path
    files: tuple[str, ...]
    """Relative paths of its files, sorted."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The image of each build context, by its path in the directory; empty if images are built where it is played."""


def write_task(
    spec: EnvironmentSpec,
    directory: Path,
    *,
    budget: int,
    arguments: Sequence[str],
    wheel: bytes,
    lay_solution: Callable[[Path], object],
    image: str = "",
) -> HarborTask:
    """Write an environment's task into a new directory.

    ``arguments`` are those of ``evopolicygym serve`` after the environment. ``lay_solution`` is called with the
    directory of the reference policy's files. ``image`` is the beginning of the names of images that are pulled; if it
    is empty, they are built. Raises ``UsageError`` if the environment lacks an anchor.
    """
    values = _values(spec, budget, arguments)
    contents = {
        path: _fill(template, values).encode()
        for path, template in _templates(files("evopolicygym.export") / "harbor_template")
    }
    contents[JUDGE / WHEEL] = wheel
    contents[JUDGE / "constraints.txt"] = constraints(spec.extra).encode()
    contents[TESTS / "anchors.json"] = f"{json.dumps(_anchors_file(spec), indent=2)}\n".encode()
    images = _image_names(image, spec.name, contents) if image else {}
    for path, content in contents.items():
        _write(directory / path, _with_images(path, content, images))
    (directory / SOLUTION).mkdir()
    lay_solution(directory / SOLUTION)
    paths = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return HarborTask(f"{ORGANISATION}/{spec.name}", directory, tuple(paths), images)


def check_image(prefix: str) -> None:
    """Raise ``UsageError`` unless names of images can begin with a text."""
    if not IMAGE.fullmatch(prefix):
        raise UsageError(
            f"Invalid --image {prefix!r}: expected a registry and a path in lower case without a tag, such as "
            f"ghcr.io/me/evopolicygym."
        )


def images_script(tasks: Sequence[HarborTask], directory: Path) -> str:
    """Return a shell script that builds the images of tasks below a directory, and pushes them if it is told to."""
    contexts = {
        image: (task.directory / context).relative_to(directory).as_posix()
        for task in tasks
        for context, image in task.images.items()
    }
    calls = "".join(f"image {image} {shlex.quote(context)}\n" for image, context in contexts.items())
    return f"{SCRIPT_HEAD}{calls}"


def _image_names(prefix: str, environment: str, contents: Mapping[Path, bytes]) -> dict[str, str]:
    """Return an image for each build context, tagged with the version and the digest of what it is built from."""
    images = {}
    for context, role in CONTEXTS.items():
        digest = hashlib.sha256()
        for path in sorted(contents):
            inner = [other for other in CONTEXTS if other != context and other.is_relative_to(context)]
            if path.is_relative_to(context) and not any(path.is_relative_to(other) for other in inner):
                digest.update(f"{path} {len(contents[path])}\n".encode() + contents[path])
        name = f"{prefix}/{environment.lower()}-{role}:{__version__}-{digest.hexdigest()[:DIGITS]}"
        images[context.as_posix()] = name
    return images


def _with_images(path: Path, content: bytes, images: Mapping[str, str]) -> bytes:
    """Return a file of a task whose images are pulled instead of built."""
    if not images or path not in {Path("task.toml"), COMPOSE}:
        return content
    text = content.decode()
    if path == COMPOSE:
        image = images[JUDGE.as_posix()]
        return text.replace("    build:\n      context: ./judge\n", f"    image: {image}\n").encode()
    for table, context in (("[verifier.environment]", TESTS), ("[environment]", ENVIRONMENT)):
        line = f"docker_image = {json.dumps(images[context.as_posix()])}\n"
        text = re.sub(rf"^{re.escape(table)}.*\n", rf"\g<0>{line}", text, flags=re.MULTILINE)
    return text.encode()


def anchors(spec: EnvironmentSpec) -> tuple[float, float]:
    """Return the mean returns with a reward of 0 and of 1; raise ``UsageError`` if one was not measured."""
    if spec.random_anchor is None or spec.reference_anchor is None:
        raise UsageError(
            f"The environment {spec.name!r} can't be a Harbor task: its reward is 0 at random_anchor and 1 at "
            f"reference_anchor, and its spec lacks one of them. The environments of core16 have both."
        )
    return spec.random_anchor.mean, spec.reference_anchor.mean


def _anchors_file(spec: EnvironmentSpec) -> dict[str, Any]:
    random, reference = anchors(spec)
    return {
        "environment": spec.name,
        "random_anchor": random,
        "reference_anchor": reference,
    }


def _values(spec: EnvironmentSpec, budget: int, arguments: Sequence[str]) -> dict[str, str]:
    """Return the value of each name in braces. JSON strings and lists are valid TOML."""
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


def _fill(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template


def _templates(folder: Traversable, path: Path = Path()) -> Iterator[tuple[Path, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != CACHE:
                yield from _templates(entry, path / entry.name)
        else:
            yield path / entry.name, entry.read_text(encoding="utf-8")


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o755 if file.suffix in EXECUTABLE else 0o644)


def wheel() -> bytes:
    """Return this package as a wheel; raise ``UsageError`` if it isn't installed, or in another version."""
    installed = _own_distribution()
    contents = dict(_files(files(PACKAGE), PACKAGE))
    for name in ("METADATA", "entry_points.txt"):
        contents[f"{INFORMATION}/{name}"] = (installed.read_text(name) or "").encode()
    contents[f"{INFORMATION}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: {PACKAGE} ({__version__})\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode()
    )
    record = "".join(f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in contents.items())
    contents[f"{INFORMATION}/RECORD"] = f"{record}{INFORMATION}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            entry = zipfile.ZipInfo(path, FILE_TIME)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def constraints(extra: str) -> str:
    """Return constraints: the installed version of each requirement of the package with an extra, a line each.

    Requirements that are not installed here have no line.
    """
    _own_distribution()
    seen = waiting = {(PACKAGE, extra)}
    while waiting := {need for name, part in waiting if version_of(name) for need in _requirements(name, part)} - seen:
        seen = seen | waiting
    versions = {name: version for name, _ in seen if name != PACKAGE and (version := version_of(name))}
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def version_of(name: str) -> str:
    """Return the installed version of a distribution; empty if it isn't installed."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def _requirements(name: str, extra: str) -> Iterator[tuple[str, str]]:
    """Yield the requirements of a distribution and its extra, for all platforms: names, each with an extra."""
    for requirement in distribution(name).requires or ():
        of_extra = EXTRA.search(requirement)
        if (of_extra is None or of_extra[1] == extra) and (match := REQUIREMENT.match(requirement)):
            for part in ("", *(match[2] or "").split(",")):
                yield re.sub(r"[-_.]+", "-", match[1]).lower(), part.strip()


def _own_distribution() -> Distribution:
    """Return this package's distribution; raise ``UsageError`` if there is none, or of another version."""
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise UsageError(f"{PACKAGE} is not installed, so its requirements are unknown. {INSTALL}") from error
    if installed.version != __version__:
        raise UsageError(f"{PACKAGE} {__version__} runs here, but {installed.version} is installed. {INSTALL}")
    return installed


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != CACHE:
            yield from _files(entry, f"{path}/{entry.name}")
        elif entry.is_file() and not entry.name.endswith(".pyc"):
            yield f"{path}/{entry.name}", entry.read_bytes()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
