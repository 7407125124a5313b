"""The versions that an environment's numbers depend on, as installed here.

A spec's ``packages`` names the distributions; a run records the versions and compares them when it is resumed.
"""

import base64
import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version

from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.packs.installation import installed

_RIVALS = {"pygame": ("pygame", "pygame-ce")}
"""Distributions that install the same package over one another. Minigrid asks for pygame-ce and highway-env for
pygame, so both get installed, the later one wins, and the two draw different pixels."""


def versions(spec: EnvironmentSpec) -> dict[str, str]:
    """Return the versions of Python, numpy, gymnasium and the spec's packages, by distribution.

    Where two distributions provide one package, the one is named whose files lie on disk. Raises ``MissingExtra``
    where a package isn't installed.
    """
    found = {"python": platform.python_version(), "numpy": version("numpy"), "gymnasium": version("gymnasium")}
    for package in spec.packages:
        try:
            found_provider = provider(package)
        except PackageNotFoundError as error:
            raise not_installed(spec, package) from error
        found[found_provider] = version(found_provider)
    return found


def is_installed(spec: EnvironmentSpec) -> bool:
    """Return whether all packages that a spec names are installed, where it plays."""
    return bool(installed(spec.pack)) if spec.pack else are_installed(spec.packages)


def are_installed(packages: Iterable[str]) -> bool:
    """Return whether distributions are installed beside us, or what stands for them."""
    return all(any(map(_is_installed, _RIVALS.get(package, (package,)))) for package in packages)


def not_installed(spec: EnvironmentSpec, missing: str) -> UsageError:
    """Return the error that tells how to install what an environment lacks."""
    if spec.extra:
        return MissingExtra(f"The environment {spec.name!r}", spec.extra, missing)
    if any(f"{name}.".startswith(f"{missing}.") for name in spec.registering_modules):
        return UsageError(
            f"The environment {spec.name!r} needs the module {missing}, which is neither on Python's path nor beside "
            f"its TOML file. Install the package that brings it, or name the directory of {missing}.py: PYTHONPATH=DIR"
        )
    return UsageError(
        f"The environment {spec.name!r} needs {missing}, which is not installed; install the package that brings it."
    )


@cache
def provider(package: str) -> str:
    """Return the distribution whose files lie on disk for a package; raise ``PackageNotFoundError`` for none."""
    installed = [name for name in _RIVALS.get(package, (package,)) if _is_installed(name)]
    if not installed:
        raise PackageNotFoundError(package)
    return max(installed, key=lambda name: _files_in_place(distribution(name))) if len(installed) > 1 else installed[0]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _files_in_place(found: Distribution) -> float:
    """Return which share of a distribution's compiled modules lies on disk as it was installed."""
    modules = [file for file in found.files or () if file.suffix in {".so", ".pyd"} and file.hash is not None]
    intact = sum(_digest(found, str(file)) == file.hash.value for file in modules if file.hash is not None)
    return intact / max(1, len(modules))


def _digest(found: Distribution, file: str) -> str:
    try:
        with open(str(found.locate_file(file)), "rb") as module:  # noqa: PTH123 - a SimplePath has no open
            digest = hashlib.file_digest(module, "sha256").digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
