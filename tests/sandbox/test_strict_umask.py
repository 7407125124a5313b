"""What another user must be able to read can be read, whatever the umask."""

import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from distributions import install_distribution
from enclosed import needs_bubblewrap
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import bwrap
from playground import local_executor, one_worker, policy
from simulators import spec

pytestmark = needs_bubblewrap


def close_to_others(site: Path) -> None:
    """Take from other users what a umask of 077 takes."""
    for path in (site, *site.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def test_checkpoints_under_a_strict_umask(tmp_path: Path) -> None:
    """A policy and its modules play whatever the modes with which they were submitted."""
    before = os.umask(0o077)
    try:
        with one_worker("bubblewrap", spec("Plain"), tmp_path) as ground:
            (played,) = ground.play(policy(top="import helper"), 1, helper="")
    finally:
        os.umask(before)

    assert played.episode.failure is None


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox has no other user")
def test_an_installation_under_a_strict_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others can't read an installed package, root's sandboxes have root's number, and a finding names why."""
    site = tmp_path / "site"
    for file in {Path(file.parts[0]) for file in metadata.files("numpy") or () if file.parts[0] != ".."}:
        shutil.copytree(metadata.distribution("numpy").locate_file(file), site / file)  # type: ignore[arg-type] # a path
    close_to_others(site)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    bwrap.why_no_own_user.cache_clear()
    try:
        with local_executor("bubblewrap", spec("Plain"), tmp_path) as ground:
            (played,) = ground.play(policy(), 1)
            found = ground.executor.info.findings["user"]
    finally:
        bwrap.why_no_own_user.cache_clear()

    assert played.episode.failure is None
    assert str(site) in found


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox has no other user")
def test_a_named_package_under_a_strict_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of the run that the sandbox's user can't read is the sandbox's fault, never a policy's."""
    site = tmp_path / "site"
    install_distribution(site, "closed", closed="")
    close_to_others(site)
    monkeypatch.syspath_prepend(str(site))

    with (
        one_worker("bubblewrap", spec("Plain"), tmp_path, packages=("closed",)) as ground,
        pytest.raises(SandboxError, match=r"closed\.py.*chmod"),
    ):
        ground.play(policy(top="import closed"), 1)
