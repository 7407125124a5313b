"""What a machine of a cluster does with a case, without a cluster: bytes in, bytes out, and nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.checks import crash_isolation
from evopolicygym.checks.executor import POLICIES, compare
from evopolicygym.core.errors import RecordError, SandboxError, UsageError
from evopolicygym.core.rollout import EpisodeJob, ExecutorInfo, Rollout
from evopolicygym.records import checkpoints
from evopolicygym.rollout.cluster import node
from evopolicygym.rollout.cluster.node import Node, NodeDescription, archive_name, pack, unpack
from evopolicygym.rollout.cluster.node_compatibility import incompatibilities
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig, claim
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.specs import catalog
from fakes import GROUNDS
from playground import ROOMY, Playground, policy


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a directory for temporary files of the test's own."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def project(place: Path) -> Path:
    """Return a directory with files, an empty directory and bytes of every kind."""
    (place / "models" / "deep").mkdir(parents=True)
    (place / "empty").mkdir()
    (place / "policy.py").write_text(policy())
    (place / "models" / "deep" / "weights.bin").write_bytes(bytes(range(256)))
    return place


def test_a_archive_is_the_same_directory_elsewhere(tmp_path: Path) -> None:
    """What is unpacked is what was packed, empty directories too, and has the name that its content gives it."""
    source = project(tmp_path / "source")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "before.txt").touch()
    unpack(pack(source), tmp_path / "target")

    assert pack(tmp_path / "target") == pack(source)
    assert archive_name(pack(source)) == checkpoints.name_of(tmp_path / "target")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


@pytest.mark.parametrize("path", ["../out.txt", "/out.txt", "a/../../out.txt"])
def test_a_archive_leads_nowhere_else(tmp_path: Path, path: str) -> None:
    """A path that leads out of a archive is refused, and nothing comes in its place."""
    with pytest.raises(RecordError):
        unpack({path: b"x"}, tmp_path / "in" / "target")

    assert not (tmp_path / "in" / "target").exists()
    assert list(tmp_path.rglob("out.txt")) == []


def test_processors_are_claimed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that ask get two processors, who comes when all are taken gets none, and what is released is free."""
    monkeypatch.setattr(os, "getuid", lambda: f"{os.getpid()}-of-a-test")  # so that nobody else claims them
    usable = sorted(os.sched_getaffinity(0))
    claims = [claim() for _ in range(len(usable) + 1)]
    try:
        assert [one.core for one in claims] == [*usable, None]
    finally:
        for one in claims:
            one.release()
    with claim() as first:
        assert first.core == usable[0]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"versions": {"python": "3", "toy": "2"}}, ("toy", "2", "1")),
        ({"versions": {"python": "3"}}, ("toy", "1")),
        ({"isolation": "process"}, ("process", "none")),
        ({"findings": {"seccomp": "no"}}, ("seccomp", "no")),
        ({"allowed_imports": ("numpy==3",)}, ("numpy", "3", "2")),
        ({"action_schema": {}}, ("spaces",)),
    ],
)
def test_what_makes_places_incompatible(changed: dict[str, object], named: tuple[str, ...]) -> None:
    """Versions, level, what the sandbox enforces, libraries and spaces must be equal, and the difference is named."""
    (said,) = incompatibilities(GROUNDS, replace(GROUNDS, **changed))  # type: ignore[arg-type] # fields of ExecutorInfo

    assert [word for word in named if word not in said] == []


def test_why_a_level_was_chosen_makes_no_difference() -> None:
    """A level asked for by name is as good as the same one found by itself."""
    found: ExecutorInfo = replace(GROUNDS, findings={"chosen": "asked for by name"})

    assert (
        incompatibilities(replace(GROUNDS, findings={"chosen": "the strongest", "not bubblewrap": "no"}), found) == []
    )


@pytest.fixture
def opened(temporary: Path) -> Iterator[Node]:  # noqa: ARG001 - where it works
    one = Node(catalog.load("cartpole"), ROOMY, "auto")
    with closing(one):
        home = one.open()
        assert isinstance(home.answer, NodeDescription), home.error
        yield one


def test_a_node_plays_as_a_local_executor_does(opened: Node, tmp_path: Path, temporary: Path) -> None:
    """The episode and its files that come home as bytes are those that are written at home; nothing is left."""
    config = ExecutorConfig(catalog.load("cartpole"), ROOMY, "auto", tmp_path / "s", tmp_path / "log", 1)
    with LocalExecutor(config) as executor:
        ground = Playground(executor, catalog.load("cartpole"), tmp_path)
        checkpoint = ground.checkpoint(policy(act="print(obs)\nreturn int(obs[2] > 0)"))
        job = EpisodeJob(0, 7, 8, tmp_path / "episode")
        [(*_, episode)] = executor.play([Rollout(checkpoint, ground.context, [job])], lambda *_: None)
        opened.take(archive_name(pack(checkpoint)), pack(checkpoint))
        home = opened.play(archive_name(pack(checkpoint)), ground.context, job)

    assert home.answer.timeless == episode.timeless  # type: ignore[type-var] # an Episode
    assert home.files == pack(tmp_path / "episode")
    opened.close()
    assert list(temporary.iterdir()) == []


def test_a_checkpoint_that_was_changed_on_its_way_is_not_played(opened: Node) -> None:
    """What comes under a name that is not its content's is refused."""
    with pytest.raises(SandboxError, match="ab" * 6):
        opened.take("ab" * 32, {"policy.py": b"x"})


def test_scratch_of_a_node_that_was_killed_is_swept(temporary: Path) -> None:
    """What a killed process left is removed by the next; what belongs to one that lives is not."""
    mine = node._create_scratch()
    make_one = (
        "import tempfile, sys, os\ntempfile.tempdir = sys.argv[1]\nfrom evopolicygym.rollout.cluster import node\n"
    )
    subprocess.run(
        [sys.executable, "-c", f"{make_one}node._create_scratch()\nos.kill(os.getpid(), 9)", temporary], check=False
    )
    assert len(list(temporary.iterdir())) == 2
    node.sweep()

    assert list(temporary.iterdir()) == [mine]


def test_executors_are_names() -> None:
    """Both executors answer to their names, and what is none is told with those that are."""
    assert {"local", "ray"} <= set(EXECUTORS.names())
    assert "base" not in EXECUTORS.names()


def test_the_local_executor_has_no_address(tmp_path: Path) -> None:
    """An address for this machine is a mistake that is told."""
    told = ExecutorConfig(catalog.load("cartpole"), ROOMY, "auto", tmp_path / "a", tmp_path / "b", address="a:1")

    with pytest.raises(UsageError, match="--executor ray"):
        EXECUTORS.load("local")(told)


def make_forgetful(config: ExecutorConfig) -> LocalExecutor:
    """Return an executor, named from outside, that plays other cases than it is told."""

    class Forgetful(LocalExecutor):
        def play(self, rollouts, repeated):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            for rollout in rollouts:
                others = {replace(job, seed=job.seed + 1): job for job in rollout.jobs}
                told = Rollout(rollout.checkpoint, rollout.context, list(others))
                for _, job, episode in super().play([told], repeated):
                    yield rollout, others[job], episode

    return Forgetful(replace(config, workers=1))


@pytest.mark.nightly
def test_parity_finds_nothing_where_a_simulator_is_killed_once() -> None:
    """The simulator that is killed in its first attempt plays in its second, though its worker is another one."""
    info, played = compare("local", "", crash_isolation.spec(""), {"plays": POLICIES["plays"]})

    assert (info.ok, played.ok) == (True, True), played.detail


def test_parity_finds_an_executor_that_plays_otherwise() -> None:
    """An executor that changes a seed is found."""
    short = replace(catalog.load("cartpole"), max_steps=20)
    info, played = compare("test_node:make_forgetful", "", short, {"plays": POLICIES["plays"]})

    assert info.ok
    assert not played.ok
    assert "case 0" in played.detail
