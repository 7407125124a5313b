"""What the image of a task's judge installs: this package as a wheel, and the versions that are installed here.

A task is built where this package may be on no index, and must play as it does here; so it brings the package along.
"""

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable

from evopolicygym.core.errors import UsageError
from evopolicygym.version import __version__

PACKAGE = "evopolicygym"
WHEEL = f"{PACKAGE}-{__version__}-py3-none-any.whl"
INFORMATION = f"{PACKAGE}-{__version__}.dist-info"
INSTALL = "pip install -e . in its checkout installs it."
MADE = (2020, 1, 1, 0, 0, 0)
"""The time of every file in the wheel, so that the same package makes the same wheel."""
NOT_SHIPPED = "__pycache__"
NEEDED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
"""How a requirement begins: a name, and extras of that."""
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def wheel() -> bytes:
    """Return this package as a wheel; raise ``UsageError`` where it was not installed, or as another version."""
    found = _installed()
    contents = dict(_files(files(PACKAGE), PACKAGE))
    for name in ("METADATA", "entry_points.txt"):
        contents[f"{INFORMATION}/{name}"] = (found.read_text(name) or "").encode()
    contents[f"{INFORMATION}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: {PACKAGE} ({__version__})\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode()
    )
    record = "".join(f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in contents.items())
    contents[f"{INFORMATION}/RECORD"] = f"{record}{INFORMATION}/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            entry = zipfile.ZipInfo(path, MADE)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


def constraints(extra: str) -> str:
    """Return the versions that are installed here of all that the package with an extra needs, a line each.

    What is not installed here has no line: it is installed as the package's own requirements say.
    """
    _installed()
    seen = waiting = {(PACKAGE, extra)}
    while waiting := {one for name, wanted in waiting if version_of(name) for one in _needs(name, wanted)} - seen:
        seen = seen | waiting
    versions = {name: version for name, _ in seen if name != PACKAGE and (version := version_of(name))}
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def version_of(name: str) -> str:
    """Return the version of a distribution that is installed here; empty where it is not."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def _needs(name: str, extra: str) -> Iterator[tuple[str, str]]:
    """Yield what a distribution requires, by itself or by an extra, on whatever platform: names, each with an extra."""
    for requirement in distribution(name).requires or ():
        of_extra = EXTRA.search(requirement)
        if (of_extra is None or of_extra[1] == extra) and (needed := NEEDED.match(requirement)):
            for each in ("", *(needed[2] or "").split(",")):
                yield re.sub(r"[-_.]+", "-", needed[1]).lower(), each.strip()


def _installed() -> Distribution:
    """Return how this package was installed; raise ``UsageError`` where that says nothing of what runs here."""
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise UsageError(
            f"{PACKAGE} runs here without being installed, so what it needs is unknown. {INSTALL}"
        ) from error
    if found.version != __version__:
        raise UsageError(f"{PACKAGE} {__version__} runs here, and {found.version} was installed. {INSTALL}")
    return found


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir() and one.name != NOT_SHIPPED:
            yield from _files(one, f"{path}/{one.name}")
        elif one.is_file() and not one.name.endswith(".pyc"):
            yield f"{path}/{one.name}", one.read_bytes()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
