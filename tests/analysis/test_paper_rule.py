"""What a change is by the paper's rule; read from a stranger's files without running them."""

import ast
import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundles import Pair, bundle, labelled_pairs
from evopolicygym.analysis.diagnostics.code import count
from evopolicygym.analysis.lineage.edits import PaperEdit, classify
from evopolicygym.analysis.source import MOST_BYTES, MOST_PARSED_BYTES, File, read_bundle, read_source
from hostile_files import DEEP_FILES

PAIRS = labelled_pairs()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name.replace(" ", "-"))
def test_changes_are_called_what_a_person_called_them(pair: Pair, tmp_path: Path) -> None:
    """Each pair that was labelled by hand is classified so, in both directions."""
    before, after = bundle(tmp_path / "before", pair.before), bundle(tmp_path / "after", pair.after)

    assert classify(before, after) == pair.label
    assert classify(after, before) == pair.label


def test_the_pairs_cover_what_there_is() -> None:
    """There are at least thirty pairs, some of each label, each under a name of its own."""
    assert len({pair.name for pair in PAIRS}) == len(PAIRS) >= 30
    assert {pair.label for pair in PAIRS} == set(PaperEdit)


@pytest.mark.parametrize("content", DEEP_FILES.values(), ids=DEEP_FILES.keys())
def test_hostile_files_are_read(content: bytes, tmp_path: Path) -> None:
    """A file that breaks parsers is compared as text or as a tree, and never ends the reading."""
    before = bundle(tmp_path / "before", {"policy.py": content})
    after = bundle(tmp_path / "after", {"policy.py": content + b"\nb = 1\n"})

    assert classify(before, before) is PaperEdit.NONE
    assert classify(before, after) is PaperEdit.STRUCTURAL
    assert count(before).python_files == 1


def test_nothing_of_a_stranger_is_run(tmp_path: Path) -> None:
    """Reading a bundle neither imports nor runs what is in it."""
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w')\n"
    bundle(tmp_path / "bundle", {"policy.py": trap, "numpy.py": trap, "__init__.py": trap, "conftest.py": trap})

    assert not (tmp_path / "sprung").exists()


def test_large_files_are_not_parsed(tmp_path: Path) -> None:
    """A file above the bound is compared as text; so are those beyond what one bundle may have parsed."""
    large = b"#" * MOST_BYTES + b"\na = 1\n"
    whole = b"a = 1\n".ljust(MOST_BYTES)
    many = {f"module_{place}.py": whole for place in range(MOST_PARSED_BYTES // MOST_BYTES + 1)}

    sources = [file.source for file in bundle(tmp_path / "many", many).values()]

    assert not read_source(large).parsed
    assert [source.parsed for source in sources if source] == [True] * (len(many) - 1) + [False]
    assert read_source(large).lines == 2


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A directory from elsewhere that holds a link is no checkpoint's."""
    (tmp_path / "secret.py").write_text("a = 1\n")
    directory = tmp_path / "bundle"
    directory.mkdir()
    (directory / "policy.py").symlink_to(tmp_path / "secret.py")

    assert read_bundle(directory) is None
    assert read_bundle(tmp_path / "nowhere") is None


def test_each_distinct_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that many bundles share is parsed for the first of them only."""
    parsed: list[bytes] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda content: parsed.append(content) or parse(content))
    text = f"MADE_BY = {str(tmp_path)!r}\n"

    for place in range(5):
        bundle(tmp_path / str(place), {"policy.py": text, f"module_{place}.py": text})

    assert len(parsed) == 1


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LITERALS = st.recursive(
    NUMBERS | st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.integers(), inner),
)


def one_file(text: str) -> dict[str, File]:
    """Return a bundle of one policy."""
    return {"policy.py": File(text, len(text), is_code=True, source=read_source(text.encode()))}


@settings(deadline=None, max_examples=50)
@given(LITERALS, LITERALS)
def test_literals_are_parameters(one: object, other: object) -> None:
    """Whatever literal is put for another is a change of parameters, or none where it is the same."""
    before, after = (one_file(f"def act(obs):\n    return {value!r}\n") for value in (one, other))

    assert classify(before, after) is (PaperEdit.NONE if repr(one) == repr(other) else PaperEdit.PARAMETRIC)


BUNDLES = st.dictionaries(
    st.sampled_from(["policy.py", "planner.py", "weights.json"]),
    st.sampled_from(["a = 1", "a = 2", "b = 1", "a = 1 #", "(", '"""Text."""\na = 1']),
)


@settings(deadline=None)
@given(BUNDLES, BUNDLES)
def test_a_change_is_the_same_both_ways(one: dict[str, str], other: dict[str, str]) -> None:
    """What a change is doesn't hang on its direction, and the same bundle is no change."""
    before, after = (
        {
            name: File(text, len(text), name.endswith("py"), read_source(text.encode()) if "py" in name else None)
            for name, text in files.items()
        }
        for files in (one, other)
    )

    assert classify(before, after) is classify(after, before)
    assert classify(before, before) is PaperEdit.NONE


def test_threads_may_read_at_the_same_time() -> None:
    """A page's parts are made in threads, and each reads its files as it would alone."""
    line = b"def f%d(x):\n    return [(x + %d) * (x - 1) if x else {x: (x, [x])}]\n"
    content = b"".join(line % (number, number) for number in range(60))
    alone = read_source(content)

    def give_way(_phase: str, _details: dict[str, int]) -> None:
        Path.cwd().exists()  # a system call, while a tree is half made, as a collection's callback may make one

    gc.callbacks.append(give_way)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(read_source, [content] * 32))
    finally:
        gc.callbacks.remove(give_way)

    assert set(together) == {alone}
