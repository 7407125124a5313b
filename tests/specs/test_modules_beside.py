"""The modules that a spec's file names are imported from beside it, where they are nowhere else."""

import os
import sys
from pathlib import Path

import pytest

from evopolicygym.specs.catalog import import_from, load

SPEC = """
id = "Beside-v0"
family = "mine"
kind = "tuning"
max_steps = 1
objective = "o"
reward = "r"
termination = "t"
observation = ["x"]
action = ["a"]
idle_action = 0
imports = [{imports}]
"""


@pytest.mark.parametrize(
    ("imports", "count"), [('"module_beside_a_spec"', 1), ('"json"', 0), ('"in_no_place"', 0), ("", 0)]
)
def test_the_directory_is_on_the_path_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str, count: int
) -> None:
    """It comes last, once, in this process and in those that it starts."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "/before")
    for name in ("module_beside_a_spec", "json"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "beside.toml").write_text(SPEC.format(imports=imports))
    spec = load(tmp_path / "beside.toml")
    import_from(tmp_path, spec)

    assert sys.path.count(str(tmp_path)) == count
    assert os.environ["PYTHONPATH"].split(os.pathsep) == ["/before", *[str(tmp_path)] * count]
