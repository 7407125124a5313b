"""The catalogue of environments: specs are read, listed, told apart and refused."""

import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.task import Anchor, TaskKind
from evopolicygym.specs import catalog
from specs import CARTPOLE, CORE16, MINIGRID, every


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_core16_is_complete() -> None:
    """The extra ``core16`` covers the sixteen environments of the paper, no more and no fewer."""
    found = {name for name in catalog.names() if catalog.load(name).extra == "core16"}

    assert found == CORE16


@every
def test_every_spec_loads_under_its_files_name(name: str) -> None:
    """A spec is named after its file, and says all that an agent has to be told."""
    spec = catalog.load(name)

    assert spec.name == name
    assert all((spec.objective, spec.reward, spec.termination, spec.observation, spec.action))


def test_kinds_are_the_papers() -> None:
    """Five tasks ask for synthesis: car racing and the four of MiniGrid."""
    synthesis = {name for name in catalog.names() if catalog.load(name).kind is TaskKind.SYNTHESIS}

    assert synthesis == {"car_racing", *MINIGRID}


def test_listing_imports_no_simulator() -> None:
    """Names can be listed and specs read without importing gymnasium."""
    program = (
        "import sys; from evopolicygym.specs import catalog as c; [c.load(n) for n in c.names()];"
        "print('gymnasium' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "False"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    """A misspelt name is refused with the name that was probably meant."""
    with pytest.raises(UnknownName, match="'acrobot'"):
        catalog.load("acrobat")


def test_a_path_is_loaded_and_named_after_its_file(tmp_path: Path) -> None:
    """A TOML file from anywhere is a spec, named after the file."""
    text = Path(str(catalog._built_in()["cartpole"])).read_text(encoding="utf-8")
    spec = catalog.load(write(tmp_path / "mine.toml", text))

    assert spec == replace(CARTPOLE, name="mine")


ENTRY_POINTS = """
[evopolicygym.environments]
lander = elsewhere:LANDER
broken = elsewhere:MISSING
odd = elsewhere:ODD
"""


@pytest.fixture
def _another_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(str(catalog._built_in()["cartpole"])).read_text(encoding="utf-8")
    spec = write(tmp_path / "whatever.toml", text)
    write(tmp_path / "elsewhere.py", f"LANDER = {str(spec)!r}\nODD = 7\n")
    (tmp_path / "elsewhere-1.dist-info").mkdir()
    write(tmp_path / "elsewhere-1.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    write(tmp_path / "elsewhere-1.dist-info" / "entry_points.txt", ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)


@pytest.mark.usefixtures("_another_distribution")
def test_another_distribution_adds_a_name() -> None:
    """An entry point that holds a path is a spec under the entry point's name."""
    assert "lander" in catalog.names()
    assert catalog.load("lander") == replace(CARTPOLE, name="lander")


@pytest.mark.usefixtures("_another_distribution")
@pytest.mark.parametrize(("name", "words"), [("broken", "broken"), ("odd", "odd")])
def test_a_bad_entry_point_is_refused(name: str, words: str) -> None:
    """An entry point that leads nowhere, or to no path, is named in the refusal."""
    with pytest.raises(UsageError, match=words):
        catalog.load(name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_step": 5}, "'max_step'"),
        ({"max_steps": None}, "'max_steps'"),
        ({"max_steps": "500"}, "'500'"),
        ({"max_steps": 0}, "max_steps"),
        ({"kind": "tunin"}, "'tuning' or 'synthesis'"),
        ({"name": "x"}, "'name'"),
        ({"success": {"rule": "info"}}, "'success.key'"),
        ({"success": {"rule": "terminated", "key": "x"}}, "'success.key'"),
        ({"success": {"rule": "terminated", "keys": "x"}}, "'success.keys'"),
        ({"random_anchor": {"mean": 1.0}}, "'random_anchor.standard_error'"),
    ],
)
def test_a_bad_spec_is_refused_by_its_field(change: dict[str, Any], words: str) -> None:
    """A spec with an unknown, missing or impossible field is refused, naming file and field."""
    good = {key: value for key, value in asdict(CARTPOLE).items() if key != "name"}
    with pytest.raises(UsageError) as refusal:
        catalog.decode(good | change, "mine", "mine.toml")

    assert "mine.toml: " in str(refusal.value)
    assert words in str(refusal.value)


@pytest.mark.parametrize(("text", "words"), [("max_steps =", "TOML"), ("id = 1979-05-27", "date"), (None, "mine")])
def test_what_is_no_spec_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    """A file that is missing, no TOML or full of dates is refused with the reason."""
    file = tmp_path / "mine.toml"
    if text is not None:
        write(file, text)

    with pytest.raises(UsageError, match=words):
        catalog.load(file)


@pytest.mark.parametrize(
    "change",
    [{"id": "x"}, {"name": "x"}, {"max_steps": 7}, {"arguments": {"a": 1}}, {"reward": "x"}, {"idle_action": 1}],
)
def test_the_hash_tells_specs_apart(change: dict[str, Any]) -> None:
    """Two specs that could score differently have different hashes."""
    assert catalog.spec_sha256(replace(CARTPOLE, **change)) != catalog.spec_sha256(CARTPOLE)


@pytest.mark.parametrize(
    "change", [{"random_anchor": Anchor(1.0, 0.1, 9)}, {"family": "x"}, {"extra": "x"}, {"packages": ("x",)}]
)
def test_the_hash_is_blind_to_what_no_score_depends_on(change: dict[str, Any]) -> None:
    """Measuring an anchor, or sorting a spec elsewhere, leaves its hash."""
    assert catalog.spec_sha256(replace(CARTPOLE, **change)) == catalog.spec_sha256(CARTPOLE)
