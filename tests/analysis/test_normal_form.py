"""A program's normal form: the same whatever its own names and its order, read from untrusted files without a run."""

import ast
from pathlib import Path

import pytest

from bundles import Files, Pair, labelled_pairs, lay_out
from evopolicygym.analysis.lineage.edits import change
from evopolicygym.analysis.lineage.program import PolicyProgram, read_program, starter
from evopolicygym.core.submission import EditKind
from hostile_files import DEEP_FILES
from places import ROOT

PAIRS = labelled_pairs()
REFERENCES = sorted((ROOT / "src/evopolicygym/references").glob("*/policy.py"))


def program(directory: Path, files: Files) -> PolicyProgram:
    """Write files below a new directory and read them as a program."""
    found = read_program(lay_out(directory, files))
    assert found is not None
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name.replace(" ", "-"))
def test_changes_are_of_the_kind_that_a_person_says(pair: Pair, tmp_path: Path) -> None:
    """Each labelled pair is of its kind by our rule, in both directions."""
    before, after = program(tmp_path / "before", pair.before), program(tmp_path / "after", pair.after)

    assert change(before, after) == pair.ours
    assert change(after, before) == pair.ours


@pytest.mark.parametrize("content", DEEP_FILES.values(), ids=DEEP_FILES.keys())
def test_hostile_files_have_a_form(content: bytes, tmp_path: Path) -> None:
    """A file that breaks parsers, or recursion, has a form all the same, and a change of it is seen."""
    before = program(tmp_path / "before", {"policy.py": content})
    after = program(tmp_path / "after", {"policy.py": content + b"\nb = 1 + c\n"})

    assert change(before, before) is EditKind.NONE
    assert change(before, after) is EditKind.STRUCTURAL


class Renamed(ast.NodeTransformer):
    """Gives every local variable of every function another name."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self.names = self.names, {
            one.id: f"renamed_{number}"
            for number, one in enumerate(ast.walk(node))
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }  # fmt: skip
        self.generic_visit(node)
        self.names = outer
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)


def shuffled(tree: ast.Module) -> ast.Module:
    """Return a file with the methods of its classes in another order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and all(isinstance(one, ast.FunctionDef) for one in node.body[1:]):
            node.body[1:] = node.body[:0:-1]
    return tree


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.parent.name)
def test_a_reference_policy_is_the_same_under_other_names(path: Path, tmp_path: Path) -> None:
    """Real policies keep their form when they are unparsed, renamed and reordered, and lose it with an operator."""
    text = path.read_text(encoding="utf-8")
    other = ast.unparse(shuffled(ast.parse(text)))
    broken = text.replace(" + ", " - ", 1)

    before = program(tmp_path / "before", {"policy.py": text})

    assert before.content == program(tmp_path / "other", {"policy.py": other}).content
    assert before.topology != program(tmp_path / "broken", {"policy.py": broken}).topology or broken == text


def test_local_names_don_t_matter(tmp_path: Path) -> None:
    """The starter has the same form when all its local variables are renamed."""
    (path,) = (ROOT / "src/evopolicygym/runs/workspace_template/system").glob("*.py")
    renamed = ast.unparse(Renamed().visit(ast.parse(path.read_text(encoding="utf-8"))))

    assert "renamed_" in renamed
    assert starter().content == program(tmp_path / "renamed", {"policy.py": renamed}).content


def test_nothing_of_it_is_run(tmp_path: Path) -> None:
    """Reading a program neither imports nor runs what is in it."""
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w')\n"
    program(tmp_path / "program", {"policy.py": trap, "numpy.py": trap})

    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("reset", "act", "expected"),
    [
        ("self.episode_index = episode_index", "return 0", False),
        ("self.fast = episode_index % 2 == 0", "return 1 if self.fast else 0", True),
        ("self.number = episode_index", "return [1, 2][self.number]", True),
        ("self.number = episode_index", "return 1 if obs[0] > self.number else 2", True),
        ("self.seed = episode_index", "return self.draw(self.seed)", False),
    ],
)
def test_a_policy_that_acts_by_the_episode(reset: str, act: str, expected: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A policy that does something else by the number of the episode is seen; one that only keeps it isn't."""
    methods = f"    def reset(self, episode_index):\n        {reset}\n\n    def act(self, obs):\n        {act}\n"

    assert program(tmp_path, {"policy.py": f"class Policy:\n{methods}"}).code.acts_by_episode is expected
