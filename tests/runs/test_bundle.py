"""Bundles: made by one user, verified and ranked by another, and refused where anything is not as it was packed."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from archives import files_of, with_index, write
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.records.bundle import INDEX, extract
from evopolicygym.records.experiment import reveal
from played_runs import PlayedRun
from shell import Shell
from whole_runs import config, played, state_kept_in


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place with two runs of a public split, and the state of who played them."""
    place = tmp_path_factory.mktemp("bundled")
    with state_kept_in(place / "state"):
        for _ in range(2):
            played(config(place / "runs", "random", 1, isolation="none", split=SplitSource.PUBLIC, experiment="board"))
    return place


@pytest.fixture
def author(original: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of the place, at the state of its author."""
    copy = Path(shutil.copytree(original, tmp_path / "author"))
    with state_kept_in(copy / "state"):
        yield copy


@pytest.fixture(scope="module")
def packed(original: Path) -> Path:
    """Return a bundle of one of the two public runs."""
    file = original / "board.tar.gz"
    with state_kept_in(original / "state"):
        evopolicygym.bundle(_run(original), file)
    return file


def _run(place: Path) -> Path:
    return min((place / "runs" / "board").rglob("journal.jsonl")).parent


def test_anyone_verifies_a_bundle(packed: Path) -> None:
    """On a machine without the author's state everything holds, replay included, and nothing is left out."""
    found = evopolicygym.verify(packed, replay=True, workers=1, isolation="none")

    assert found.failed == ()
    assert [finding.verdict for finding in found if finding.name == "replay"] == ["same"]
    assert not [finding for finding in found if "left out" in finding.detail]


def test_a_bundle_without_steps_is_played_again(author: Path, tmp_path: Path) -> None:
    """Nothing of an episode is in it, it is ranked like the whole one, and a replay alone verifies it."""
    few = evopolicygym.bundle(_run(author), tmp_path / "few.tar.gz", steps=False).file
    alone = evopolicygym.verify(few)
    again = evopolicygym.verify(few, replay=True, workers=1, isolation="none")
    ranked = [evopolicygym.leaderboard([path], show="scores").records for path in (few, _run(author))]

    assert {Path(name).name for name in files_of(few)} >= {"journal.jsonl", "run.json", "policy.py"}
    assert [name for name in files_of(few) if "/ep_" in name] == []
    assert alone.failed == ("evaluation",)
    assert again.failed == ()
    assert ranked[0] == ranked[1]


def test_what_a_bundle_left_out_can_be_bundled_so_again(author: Path, tmp_path: Path) -> None:
    """A record without hidden episodes' files is refused with the way to pack it, and packed that way."""
    shutil.rmtree(_run(author) / "evaluation")
    with pytest.raises(RecordError, match="--no-steps"):
        evopolicygym.bundle(_run(author), tmp_path / "whole.tar.gz")

    assert len(evopolicygym.bundle(_run(author), tmp_path / "few.tar.gz", steps=False).index.runs) == 1


def test_a_bundle_holds_what_verify_needs_alone(packed: Path) -> None:
    """Neither the lock, the workspace, nor logs without a hash are in it, and nobody owns its files."""
    names = {Path(name).name for name in files_of(packed)}
    with tarfile.open(packed) as archive:
        owners = {(member.uid, member.uname, member.mtime) for member in archive}

    assert names.isdisjoint({"lock", "simulators.log", "AGENTS.md", "judge"})
    assert owners == {(0, "", 0)}


def test_the_same_runs_give_the_same_bytes(author: Path, tmp_path: Path) -> None:
    """Whoever packs the same runs again, in any order, has the same archive."""
    first = evopolicygym.bundle(author / "runs" / "board", tmp_path / "a.tar.gz").file.read_bytes()
    runs = sorted((file.parent for file in (author / "runs" / "board").rglob("journal.jsonl")), reverse=True)

    assert evopolicygym.bundle(runs, tmp_path / "b.tar.gz").file.read_bytes() == first


def test_a_board_says_which_runs_are_missing(packed: Path, author: Path, tmp_path: Path) -> None:
    """The bundle and the leaderboard count the runs that an experiment began and that aren't there."""
    whole = evopolicygym.bundle(author / "runs" / "board", tmp_path / "whole.tar.gz")
    with state_kept_in(tmp_path / "elsewhere"):
        less, more = (evopolicygym.leaderboard(file).groups[0].notes for file in (packed, whole.file))

    assert [(one.began, len(one.missing)) for one in whole.index.experiments] == [(2, 0)]
    assert [len(json.loads(files_of(packed)[INDEX])["experiments"][0]["missing"])] == [1]
    assert [sum("1 of 2 runs" in note for note in notes) for notes in (less, more)] == [1, 0]


def test_secret_cases_are_not_bundled_before_they_are_revealed(played_run: PlayedRun, tmp_path: Path) -> None:
    """The message names the command; afterwards another user verifies the commitment and the score."""
    copy = played_run.copied(tmp_path)
    with state_kept_in(copy.state_home):
        with pytest.raises(UsageError, match="evopolicygym reveal default"):
            evopolicygym.bundle(copy.paths.root, tmp_path / "secret.tar.gz")
        reveal(copy.runs, "default")
        file = evopolicygym.bundle(copy.paths.root, tmp_path / "secret.tar.gz", allow_names=True).file
    found = evopolicygym.verify(file, replay=True, workers=1, isolation="none")

    assert found.ok
    assert not [finding for finding in found if finding.name == "commitment" and "not checked" in finding.detail]


def test_names_of_the_author_are_not_bundled(author: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound file that holds the user's name is named, unless that is allowed; of a longer word it is no name."""
    for user in ("boar", "board"):
        monkeypatch.setenv("LOGNAME", user)
        if user == "boar":
            evopolicygym.bundle(author / "runs" / "board", tmp_path / "a.tar.gz")
            continue
        with pytest.raises(UsageError, match="user name"):
            evopolicygym.bundle(author / "runs" / "board", tmp_path / "b.tar.gz")
        assert evopolicygym.bundle(author / "runs" / "board", tmp_path / "b.tar.gz", allow_names=True).file.is_file()


def test_a_changed_byte_is_refused(packed: Path, tmp_path: Path) -> None:
    """The file is named by which a bundle differs from its list; so is one that its list doesn't have, or lacks."""
    files = files_of(packed)
    journal = next(name for name in files if name.endswith("journal.jsonl"))
    for changed in (
        {**files, journal: files[journal].replace(b"cartpole", b"cartpolf", 1)},
        {**files, journal + ".more": b""},
        {name: content for name, content in files.items() if name != journal},
    ):
        with pytest.raises(RecordError, match=r"journal\.jsonl"):
            evopolicygym.leaderboard(write(tmp_path / "changed.tar.gz", changed))


def test_a_changed_record_with_new_hashes_does_not_verify(packed: Path, tmp_path: Path) -> None:
    """A list that was made to fit doesn't help: what the event log binds is checked by verify."""
    files = files_of(packed)
    name = next(name for name in files if name.endswith("policy.py"))
    files[name] += b"\n"
    digest = hashlib.sha256(files[name]).hexdigest()
    file = write(tmp_path / "new.tar.gz", with_index(files, lambda index: index["files"].update({name: digest})))

    assert evopolicygym.verify(file).failed


def test_a_run_that_was_removed_is_refused(author: Path, tmp_path: Path) -> None:
    """Without its files; without its files and their hashes; and without its line too, as the counts don't add up."""
    files = files_of(evopolicygym.bundle(author / "runs" / "board", tmp_path / "whole.tar.gz").file)
    run = json.loads(files[INDEX])["runs"][0]
    less = {name: content for name, content in files.items() if not name.startswith(run["path"])}

    def without_hashes(index: dict[str, Any]) -> None:
        index["files"] = {name: value for name, value in index["files"].items() if not name.startswith(run["path"])}

    def without_run(index: dict[str, Any]) -> None:
        without_hashes(index)
        index["runs"].remove(run)

    for changed in (less, with_index(less, without_hashes), with_index(less, without_run)):
        with pytest.raises(RecordError):
            evopolicygym.verify(write(tmp_path / "less.tar.gz", changed))


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("/etc/passwd"), tarfile.TarInfo("../outside"), tarfile.TarInfo("runs/../../outside"),
        tarfile.TarInfo("runs//a"), tarfile.TarInfo("./a"), tarfile.TarInfo("a\nb"), tarfile.TarInfo("a" * 2000),
    ],
    ids=lambda member: repr(member.name[:20]),
)  # fmt: skip
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_hostile_members_are_refused(member: tarfile.TarInfo, kind: bytes, tmp_path: Path) -> None:
    """Neither a link, a device nor a path that leads elsewhere is extracted, though the list has it."""
    index = {"schema_version": 1, "runs": [], "experiments": [], "files": {member.name: hashlib.sha256().hexdigest()}}
    text = json.dumps(index).encode()
    member.type, member.linkname = kind, "/etc/passwd"
    first = tarfile.TarInfo(INDEX)
    first.size = len(text)
    with tarfile.open(tmp_path / "hostile.tar.gz", "w:gz") as archive:
        archive.addfile(first, io.BytesIO(text))
        archive.addfile(member)
    (tmp_path / "into").mkdir()

    with pytest.raises(RecordError, match="refused"):
        extract(tmp_path / "hostile.tar.gz", tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("claimed", ["header", "file"])
def test_an_archive_that_claims_any_size_is_refused(claimed: str, tmp_path: Path) -> None:
    """A header that would fill the memory, or a file that would fill the disk, is not read."""
    member = tarfile.TarInfo("pax" if claimed == "header" else INDEX)
    member.type = tarfile.XHDTYPE if claimed == "header" else tarfile.REGTYPE
    member.size = 1 << 40
    (tmp_path / "bomb.tar.gz").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + b"0" * 4096))
    (tmp_path / "into").mkdir()

    with pytest.raises(RecordError):
        extract(tmp_path / "bomb.tar.gz", tmp_path / "into")


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(b"no archive"), gzip.compress(b"0" * 5000)[:9]],
    ids=["empty", "text", "compressed text", "cut off"],
)
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path, shell: Shell) -> None:
    """The message names the file."""
    file = tmp_path / "none.tar.gz"
    file.write_bytes(content)
    ended = shell("leaderboard", str(file))

    assert (ended.code, "none.tar.gz" in ended.err) == (RecordError.exit_code, True)


def test_a_bundle_of_a_newer_schema_is_refused(packed: Path, tmp_path: Path) -> None:
    """It is named by its number."""
    files = with_index(files_of(packed), lambda index: index.update(schema_version=2))

    with pytest.raises(RecordError, match="got 2"):
        evopolicygym.verify(write(tmp_path / "newer.tar.gz", files))


def test_the_verb(author: Path, tmp_path: Path, shell: Shell) -> None:
    """It writes the bundle and says what is in it; what it wrote can be compared."""
    file = tmp_path / "mine.tar.gz"
    told = shell.json("bundle", str(author / "runs" / "board"), "-o", str(file))

    assert (len(told["runs"]), told["experiments"][0]["began"]) == (2, 2)
    assert shell("verify", str(file)).code == 0
    assert shell("compare", str(file), "Random", "--tables", "anchors").code in {0, 2}
