"""The versions of packages that an environment's numbers depend on."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution

import pytest

from evopolicygym.core.errors import MissingExtra
from evopolicygym.environments import versions
from evopolicygym.specs import catalog
from specs import CARTPOLE, every


@every
def test_versions_name_what_the_numbers_depend_on(name: str) -> None:
    """Python, numpy, gymnasium and every package of the spec are there, at the version installed."""
    spec = catalog.load(name)
    found = versions.versions(spec)
    packages = {"pygame-ce" if name == "pygame" and "pygame-ce" in found else name for name in spec.packages}

    assert found.keys() == {"python", "numpy", "gymnasium"} | packages
    assert all(found[package] == distribution(package).version for package in packages)


def test_the_pygame_that_is_imported_is_the_one_named() -> None:
    """Where pygame and pygame-ce overwrote each other, the version is that of the one in place."""
    pygame = pytest.importorskip("pygame")
    provider = "pygame-ce" if getattr(pygame, "IS_CE", 0) else "pygame"

    assert versions.versions(catalog.load("car_racing"))[provider] == pygame.version.ver


def test_a_package_that_is_not_installed_names_the_extra() -> None:
    """A spec whose package is missing has no versions, and says which extra brings it."""
    with pytest.raises(MissingExtra, match="core16"):
        versions.versions(replace(CARTPOLE, extra="core16", packages=("no-such-distribution",)))
    with pytest.raises(PackageNotFoundError):
        versions.provider("no-such-distribution")
