"""Packages for parts that users write: a small installable one of each kind, which passes the check of its kind.

The templates are the folders of ``package_templates/``. In names of files and in texts ``part_name`` stands for the
part's name, and ``part-name`` for its distribution's.
"""

import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

from evopolicygym.checks import KINDS
from evopolicygym.checks.part_names import part_names
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.text import shell_word

TEMPLATES = "package_templates"
MODULE, DISTRIBUTION = "part_name", "part-name"
_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


def template(kind: str, name: str) -> dict[str, str]:
    """Return the files of a package with a part of a kind: texts by path. Raises ``UsageError``."""
    if kind not in KINDS:
        raise UnknownName("kind of part", kind, KINDS)
    module = _module_name(kind, name)
    words = {MODULE: module, DISTRIBUTION: module.replace("_", "-")}
    folder = files("evopolicygym.checks") / TEMPLATES / kind
    return {_fill(str(path), words): _fill(text, words) for path, text in _texts(folder, PurePath())}


def write_package(kind: str, name: str, directory: Path | None = None) -> Path:
    """Write a package with a part of a kind into a new directory, by default of its name; return the directory.

    Raises ``UsageError`` for an unknown kind, a name that a package can't have, and a directory that exists.
    """
    texts, directory = template(kind, name), directory or Path(name)
    try:
        directory.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(
            f"Invalid directory {directory}: expected one that doesn't exist, got an existing one. Nothing is "
            f"overwritten; name another with -o DIR."
        ) from error
    except OSError as error:
        raise UsageError(f"Invalid directory {directory}: it can't be created ({error.strerror}).") from error
    for path, text in sorted(texts.items()):
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    return directory


def commands(directory: Path) -> list[str]:
    """Return the commands of a package's README: to install, check and use it, from its directory."""
    _, _, rest = (directory / "README.md").read_text(encoding="utf-8").partition("```sh\n")
    return [f"cd {shell_word(directory)}", *rest.partition("```")[0].splitlines()]


def _module_name(kind: str, name: str) -> str:
    module = name.replace("-", "_")
    expected = f"expected the name of a new Python package, such as my_{kind}"
    if not _NAME.fullmatch(name) or keyword.iskeyword(module):
        raise UsageError(
            f"Invalid NAME: {expected}, got {name!r}. Use small letters, digits and single underscores or hyphens."
        )
    if module in sys.stdlib_module_names or PathFinder.find_spec(module, [path for path in sys.path if path]):
        raise UsageError(f"Invalid NAME: {expected}, got {name!r}, which is the name of a module that is there.")
    if module in part_names(kind):
        raise UsageError(f"Invalid NAME: {expected}, got {name!r}, which is the name of a part of this kind.")
    return module


def _texts(folder: Traversable, path: PurePath) -> Iterator[tuple[PurePath, str]]:
    """Yield the files of a template with their paths, without what Python compiled of them."""
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _texts(entry, path / entry.name)
        elif entry.is_file():
            yield path / entry.name, entry.read_text(encoding="utf-8")


def _fill(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
