"""What lies on this machine of a pack, and who may install it."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import own_pack
from evopolicygym.core.errors import UsageError
from evopolicygym.packs.installation import InstalledPack, foreign_command, installed, packs_directory, write_document
from evopolicygym.packs.installer import CONTENTS, find_python, fits, install, remove
from evopolicygym.specs import pack_catalog

ADAPTER = "evopolicygym.environments.adapters"


@pytest.mark.parametrize(
    ("asked", "fitting"),
    [(">=3.11", True), (">=3.11,<3.13", True), ("<3.12", True), (">=3.13", False), ("<3.11", False)],
)
def test_versions_of_python(asked: str, fitting: bool) -> None:  # noqa: FBT001 - a parameter
    """Bounds hold as pip reads them."""
    assert fits(asked, (3, 11)) is fitting


def test_versions_that_are_none() -> None:
    """What is no bound is said, with one that would be."""
    with pytest.raises(UsageError, match=r"~=3\.11"):
        fits("~=3.11", (3, 11))


def test_what_is_installed_comes_back(tmp_path: Path) -> None:
    """A pack's document holds all that is known of it; without its Python there is none."""
    directory = packs_directory() / "mine"
    (directory / "python" / "bin").mkdir(parents=True)
    pack = InstalledPack(directory, ("a==1",), "3.11.2", {"a": "1"}, 7)
    write_document(pack)
    before = installed("mine")
    (directory / "python" / "bin" / "python").symlink_to(sys.executable)

    assert before is None
    assert installed("mine") == pack
    assert directory.is_relative_to(tmp_path)


def test_nothing_is_installed() -> None:
    """A pack that isn't there is none, and there is nothing to remove."""
    assert installed("nothing") is None
    assert remove("nothing") is False


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('extra = "core16"\n', "pip install 'evopolicygym\\[core16\\]'"),
        ('python = ">=3.99"\n', ">=3.99"),
    ],
)
def test_what_can_t_be_installed(line: str, why: str) -> None:
    """Before anything is downloaded it is said why not, and what would work."""
    pack = pack_catalog.decode(own_pack.FILE.replace("[[tasks]]", f"{line}[[tasks]]"), "faraway")
    with pytest.raises(UsageError, match=why):
        install(pack, lambda _: None)

    assert not packs_directory().exists()


def test_what_a_pack_s_python_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules are imported where it lies, adapters of ours too, and one that can't be is not passed over."""
    interpreter = own_pack.lay(monkeypatch).interpreter
    asked = [
        foreign_command(interpreter, CONTENTS, *modules) for modules in (["far_away", ADAPTER], ["no_such_module"])
    ]
    there, missing = (subprocess.run(line, capture_output=True, text=True, check=False) for line in asked)

    found = json.loads(there.stdout.splitlines()[-1])
    assert (found["numpy"], found["python"]) == (np.__version__, sys.version.split()[0])
    assert missing.returncode == 1
    assert "no_such_module" in missing.stderr


def test_what_can_t_be_had() -> None:
    """A pack without tasks says why."""
    text = """
    title = "t"
    family = "f"
    licence = "l"
    [[unavailable]]
    what = "all of it"
    tasks = 16
    reason = "no wheel fits"
    """
    with pytest.raises(UsageError, match="no wheel fits"):
        install(pack_catalog.decode(text, "none"), lambda _: None)


PYTHON = "#!/bin/sh\necho 3 13\n"
BROKEN = "#!/bin/sh\nexit 127\n"


def program(file: Path, text: str) -> str:
    """Write a program and return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def test_another_python_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is found on the path, by uv or of pyenv, the first that works and fits; without one it is said what brings it.

    Nothing is written before there is one.
    """
    text = own_pack.FILE.replace("[[tasks]]", 'python = ">=3.13,<3.14"\n[[tasks]]')
    pack = pack_catalog.decode(text, "faraway")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(UsageError, match=r"uv python install 3\.13"):
        install(pack, lambda _: None)
    program(tmp_path / "bin" / "python3.13", BROKEN)
    of_pyenv = program(tmp_path / "pyenv" / "versions" / "3.13.4" / "bin" / "python3.13", PYTHON)
    assert find_python(pack) == of_pyenv
    of_uv = program(tmp_path / "of_uv", PYTHON)
    program(tmp_path / "bin" / "uv", f"#!/bin/sh\ntest $2 = find && echo {of_uv}\n")
    assert find_python(pack) == of_uv
    on_path = program(tmp_path / "bin" / "python3.13", PYTHON)
    assert find_python(pack) == on_path
    assert not (packs_directory() / "faraway").exists()


def test_what_is_installed_without_its_dependencies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A distribution that a pack names so is left out of the first installation, and comes by one of its own."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    program(
        tmp_path / "bin" / "uv",
        '#!/bin/sh\necho "$*" >> "$XDG_DATA_HOME/lines"\ncase "$*" in *no-deps*) exit 3;; esac\n',
    )
    text = own_pack.FILE.replace("requirements = [", 'no_dependencies = ["far_away"]\nrequirements = ["far-away==1", ')
    with pytest.raises(UsageError, match=r"exit code 3"):
        install(pack_catalog.decode(text, "faraway"), lambda _: None)
    _, whole, bare = (tmp_path / "data" / "lines").read_text(encoding="utf-8").splitlines()

    assert ("gymnasium==" in whole, "far-away==1" in whole, "--no-deps" in whole) == (True, False, False)
    assert bare.endswith("--no-deps far-away==1")


UV = f"""#!/bin/sh
echo "$1" >> "$XDG_DATA_HOME/asked"
test "$1" = venv || {{ echo no such version; exit 3; }}
for place; do :; done
mkdir -p "$place/bin"
ln -s "{sys.executable}" "$place/bin/python"
"""
"""A uv that makes an environment and installs nothing."""


@pytest.mark.parametrize("brings_uv", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_an_installation_that_fails_goes_on(
    brings_uv: bool,  # noqa: FBT001 - a parameter
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """What can't be installed says so with the end of what was printed, leaves no pack, and is kept to go on with."""
    own_pack.known(monkeypatch, own_pack.FILE.replace("gymnasium==", "gymnasium==0.0.0.dev"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    if brings_uv:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "uv").write_text(UV, encoding="utf-8")
        (tmp_path / "bin" / "uv").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(UsageError, match=r"(?s)exit code \d.*install\.log"):
            install(pack_catalog.load("faraway"), said.append)

    assert installed("faraway") is None
    assert len(said) == 3  # an environment is made once, and pip asked twice
    if brings_uv:
        assert (tmp_path / "data" / "asked").read_text(encoding="utf-8").split() == ["venv", "pip", "pip"]
    assert remove("faraway") is True


UNKNOWN_VERSION = "ERROR: No matching distribution found for far-away==99"


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("ERROR: OSError: [Errno 28] No space left on device", "disk is full"),
        (f"WARNING: Retrying: Temporary failure in name resolution\n{UNKNOWN_VERSION}", "can't be reached"),
        (UNKNOWN_VERSION, "lacks a pinned version"),
        ("Segmentation fault", "an installer failed"),
    ],
    ids=["disk", "network", "pin", "other"],
)
def test_why_an_installer_failed(printed: str, cause: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first line has the cause, the last what was printed of it; there is no pack, and its rest is removed."""
    own_pack.known(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "printed").write_text(printed, encoding="utf-8")
    program(tmp_path / "bin" / "uv", UV.replace("echo no such version", f'cat "{tmp_path / "printed"}"'))
    with pytest.raises(UsageError) as refusal:
        install(pack_catalog.load("faraway"), lambda _: None)
    first, *_, last = str(refusal.value).splitlines()

    assert cause in first
    assert "packs remove faraway" in first
    assert last == printed.splitlines()[-1]
    assert installed("faraway") is None
    assert remove("faraway") is True


def test_a_pack_that_does_not_fit_on_the_disk() -> None:
    """Nothing is begun where the disk has less room than the pack needs; the message has both figures."""
    pack = pack_catalog.decode(own_pack.FILE.replace("size_mb = 1", "size_mb = 999999999"), "faraway")
    with pytest.raises(UsageError, match=r"999999999 MB.* \d+ MB free"):
        install(pack, lambda _: None)

    assert remove("faraway") is False


def test_a_disk_that_fills_up_while_it_is_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the pack and the place, and there is no pack."""
    own_pack.known(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    log = packs_directory() / "faraway.partial" / "install.log"
    program(tmp_path / "bin" / "uv", f'#!/bin/sh\nln -s /dev/full "{log}"\n')
    with pytest.raises(UsageError, match=r"'faraway'.*No space left on device.*packs remove faraway"):
        install(pack_catalog.load("faraway"), lambda _: None)

    assert installed("faraway") is None


SLOW_UV = """#!/bin/sh
echo begun > "$XDG_DATA_HOME/begun"
read line < "$XDG_DATA_HOME/go"
"""
"""A uv that goes on when it is told to."""
INSTALL = """
import sys

from evopolicygym.packs.installer import install
from evopolicygym.specs import pack_catalog
install(pack_catalog.decode(sys.stdin.read(), "faraway"), lambda _: None)
"""


def test_a_killed_installation_meets_no_second_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While a program that a killed installation started still writes, the pack is locked; there is none meanwhile."""
    own_pack.known(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    program(tmp_path / "bin" / "uv", SLOW_UV)
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    for name in ("begun", "go"):
        os.mkfifo(data / name)
    first = subprocess.Popen([sys.executable, "-c", INSTALL], stdin=subprocess.PIPE, text=True)
    assert first.stdin
    first.stdin.write(own_pack.FILE)
    first.stdin.close()
    assert (data / "begun").read_text() == "begun\n"
    first.kill()
    first.wait()
    with pytest.raises(UsageError, match="being installed"):
        install(pack_catalog.load("faraway"), lambda _: None)
    assert installed("faraway") is None
    (data / "go").write_text("on\n")
    with (data.joinpath("evopolicygym", "packs", "faraway.lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for the program's end
    assert remove("faraway") is True


@pytest.mark.nightly
def test_a_pack_is_installed_and_removed() -> None:
    """A real pack is installed into a Python of its own, left as it is the second time, and removed."""
    pack = pack_catalog.load("ale")
    first = install(pack, lambda _: None)
    said: list[str] = []
    again = install(pack, said.append)

    assert (again, said) == (first, ["already installed"])
    assert {"ale-py", "gymnasium"} <= first.versions.keys()
    assert remove("ale") is True
    assert installed("ale") is None
