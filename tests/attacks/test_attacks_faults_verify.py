"""Verifying a finished record: whichever byte of whichever file is changed, it is found, and the file named."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from dying import play_whole_toy
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.verify import findings

NOT_COVERED = ("workspace/system", "logs", "lock")
"""What no hash holds, and no score hangs on: the agent's own desk, whose every submission is kept as a checkpoint; what
the agent's program and the simulators printed; and the lock, which is empty."""
EXAMPLES, MANY = 40, 1000


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """Return the record of a finished run that tests may tamper with, byte by byte."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_whole_toy(root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return RunPaths(root)


def covered(paths: RunPaths) -> list[Path]:
    """Return all files of a record that verifying holds to their content."""
    uncovered = tuple(paths.root / name for name in NOT_COVERED)
    return [
        path
        for path in sorted(paths.root.rglob("*"))
        if path.is_file() and not any(path == one or one in path.parents for one in uncovered)
    ]


def named(paths: RunPaths, file: Path) -> set[str]:
    """Return the findings by which a change of a file may be told."""
    place = file.relative_to(paths.root).parts
    match place[0]:
        case "journal.jsonl":
            return {"journal"}
        case "run.json":
            return {"run.json"}
        case "checkpoints":
            return {f"checkpoint {place[1][:12]}"}
        case "evaluation":
            return {"evaluation"}
        case _:
            assert place[:2] == ("workspace", "feedback")
            return {f"feedback {place[2]}"}


def wrong(paths: RunPaths) -> set[str]:
    return {one.name for one in findings(paths.root) if not one.ok}


def test_every_file_is_covered_or_said_not_to_be(finished: RunPaths) -> None:
    """Of a record's files each is held to its content, but those listed above."""
    kinds = {path.relative_to(finished.root).parts[0] for path in covered(finished)}

    assert kinds == {"journal.jsonl", "run.json", "checkpoints", "evaluation", "workspace"}
    assert wrong(finished) == set()


def assert_a_changed_byte_is_named(finished: RunPaths, data: some.DataObject) -> None:
    """Change a byte anywhere, and see that its file is named."""
    file = data.draw(some.sampled_from([path for path in covered(finished) if path.stat().st_size]))
    content = file.read_bytes()
    place = data.draw(some.integers(0, len(content) - 1))
    value = data.draw(some.integers(0, 255).filter(lambda value: value != content[place]))
    try:
        file.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
        assert named(finished, file) == wrong(finished)
    finally:
        file.write_bytes(content)


each_time = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=EXAMPLES, **each_time)  # type: ignore[arg-type] # settings of several types
@given(some.data())
def test_any_changed_byte_is_named(finished: RunPaths, data: some.DataObject) -> None:
    """Whichever byte is changed to whatever, verifying complains, and names the file and no other."""
    assert_a_changed_byte_is_named(finished, data)


@pytest.mark.nightly
@settings(max_examples=MANY, **each_time)  # type: ignore[arg-type] # as above
@given(some.data())
def test_many_changed_bytes_are_named(finished: RunPaths, data: some.DataObject) -> None:
    """So it is with a thousand."""
    assert_a_changed_byte_is_named(finished, data)


def test_every_byte_of_the_journals_last_line_is_named(finished: RunPaths) -> None:
    """A last line that is changed looks like one that was torn; run.json knows better."""
    content = finished.journal.read_bytes()
    last = content[:-1].rindex(b"\n") + 1
    try:
        for place in (*range(last, len(content), 50), len(content) - 1):
            for value in (0, content[place] ^ 1):
                finished.journal.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
                assert wrong(finished) == {"journal"}, (place, value)
        finished.journal.write_bytes(content[:last])
        assert wrong(finished) == {"journal"}
    finally:
        finished.journal.write_bytes(content)


@pytest.mark.parametrize("below", ["checkpoints", "workspace/feedback/submit_000", "evaluation/held_out"])
@pytest.mark.parametrize("change", ["cut", "longer", "gone", "renamed", "more"])
def test_files_come_and_go_under_notice(finished: RunPaths, tmp_path: Path, below: str, change: str) -> None:
    """A file that is cut, longer, gone, of another name or new is found as a changed byte is."""
    paths = RunPaths(Path(shutil.copytree(finished.root, tmp_path / "copy")))
    file = next(path for path in sorted((paths.root / below).rglob("*")) if path.is_file() and path.stat().st_size)
    expected = named(paths, file)
    match change:
        case "cut":
            file.write_bytes(file.read_bytes()[:-1])
        case "longer":
            file.write_bytes(file.read_bytes() + b"\n")
        case "gone":
            file.unlink()
        case "renamed":
            file.rename(file.with_name("other"))
        case "more":
            file.with_name("more").touch()

    assert expected == wrong(paths)
