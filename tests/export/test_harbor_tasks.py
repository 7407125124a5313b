"""Harbor tasks: what their directories hold, and that nothing is written where something is amiss."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from evopolicygym.agents.kit import reference_policies
from evopolicygym.api.play.harbor import export_harbor
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.export.harbor import WHEEL, constraints
from evopolicygym.runs.suites.suite import load_suite
from evopolicygym.specs import catalog
from evopolicygym.version import __version__
from shell import Shell

FILES = {
    "environment/Dockerfile",
    "environment/docker-compose.yaml",
    "environment/judge/Dockerfile",
    "environment/judge/constraints.txt",
    "environment/judge/judge.py",
    f"environment/judge/{WHEEL}",
    "instruction.md",
    "solution/solve.sh",
    "solution/system/policy.py",
    "task.toml",
    "tests/Dockerfile",
    "tests/anchors.json",
    "tests/reward.py",
    "tests/test.sh",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that holds the tasks of core16."""
    directory = tmp_path_factory.mktemp("tasks")
    export_harbor(directory)
    return directory


@pytest.mark.parametrize("name", load_suite("core16", {}).environments)
def test_a_task_holds_its_environment(suite: Path, name: str) -> None:
    """Anchors, texts and the reference policy are the environment's, and no word is left open."""
    spec, task = catalog.load(name), suite / name
    document = tomllib.loads((task / "task.toml").read_text(encoding="utf-8"))
    anchors = json.loads((task / "tests" / "anchors.json").read_bytes())
    system = task / "solution" / "system"
    texts = [path.read_text(encoding="utf-8") for path in task.rglob("*") if path.is_file() and path.suffix != ".whl"]

    assert spec.random_anchor
    assert spec.reference_anchor
    assert (document["schema_version"], document["task"]["name"]) == ("1.4", f"evopolicygym/{name}")
    assert (anchors["random_anchor"], anchors["reference_anchor"]) == (
        spec.random_anchor.mean,
        spec.reference_anchor.mean,
    )
    assert {path.name: path.read_bytes() for path in system.iterdir()} == reference_policies.files_of(name)
    assert spec.objective.strip() in (task / "instruction.md").read_text(encoding="utf-8")
    assert [text for text in texts if "{{" in text] == []


def test_an_agent_s_container_has_no_way_to_the_score(suite: Path) -> None:
    """The verifier has a container of its own, and only the judge's has the directory of outcomes."""
    task = suite / "acrobot"
    document = tomllib.loads((task / "task.toml").read_text(encoding="utf-8"))
    compose = (task / "environment" / "docker-compose.yaml").read_text(encoding="utf-8")

    assert document["verifier"]["environment_mode"] == "separate"
    assert "lint" not in document["metadata"].get("harbor", {})
    assert "outcome" not in compose
    assert (task / "tests" / "Dockerfile").is_file()


def test_a_run_s_options_are_those_of_the_judge(tmp_path: Path) -> None:
    """What is fixed by the exporter stands in the judge's command and in the instruction, and is checked before."""
    (task,) = export_harbor(
        tmp_path, environments=["reacher"], budget=5, held_out=3, split="public", allow_missing=["landlock"]
    )
    judge = (task.directory / "environment" / "judge" / "Dockerfile").read_text(encoding="utf-8")
    options = ["--budget", "5", "--held-out", "3", "--split", "public", "--allow-missing", "landlock"]

    assert set(task.files) == FILES
    assert json.loads(judge.splitlines()[-1].removeprefix("CMD ")) == ["serve", "reacher", *options]
    assert "budget of 5 episodes" in (task.directory / "instruction.md").read_text(encoding="utf-8")


def test_the_same_export_writes_the_same_bytes(suite: Path, tmp_path: Path) -> None:
    """A task that is exported again is the same, so that its hash says which task it is."""
    export_harbor(tmp_path, environments=["acrobot"])
    export_harbor(tmp_path, environments=["acrobot"], force=True)
    found, again = suite / "acrobot", tmp_path / "acrobot"

    assert {one: (found / one).read_bytes() for one in FILES} == {one: (again / one).read_bytes() for one in FILES}
    assert [path.name for path in tmp_path.iterdir()] == ["acrobot"]


def test_the_judges_wheel_is_this_package(suite: Path, tmp_path: Path) -> None:
    """pip installs it, and the program runs from there."""
    wheel = suite / "acrobot" / "environment" / "judge" / WHEEL
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, str(wheel)], check=True)
    line = [sys.executable, "-P", "-m", "evopolicygym", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    checked = "import evopolicygym; print(evopolicygym.__file__)"
    place = subprocess.run(
        [sys.executable, "-P", "-c", checked], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["evopolicygym", __version__]
    assert place.stdout.startswith(str(tmp_path))


def test_a_package_that_was_not_installed_so_is_not_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout that has moved on since it was installed doesn't say what it needs."""
    monkeypatch.setattr("evopolicygym.export.harbor.__version__", "9.9")

    with pytest.raises(UsageError, match=rf"9\.9.*{__version__}"):
        constraints("core16")


def test_an_images_versions_are_those_of_here() -> None:
    """Simulators and what they need are pinned; what our own extras for other things bring is not."""
    pinned = dict(line.split("==") for line in constraints("core16").splitlines())

    assert {"mujoco", "numpy", "gymnasium", "starlette", "h11", "zipp"} <= pinned.keys()
    assert "pytest" not in pinned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"environments": ["acrobat"]}, "'acrobot'"),
        ({"environments": ["cartpole"]}, "reference_anchor"),
        ({"environments": ["acrobot"], "suite": "core16"}, "suite"),
        ({"environments": ["acrobot"], "split": "."}, "public"),
        ({"environments": ["acrobot"], "budget": 0}, "budget"),
        ({"environments": ["acrobot", "reacher"], "held_out": 257}, "256"),
        ({"environments": ["acrobot"], "films": 3}, "films"),
        ({"environments": ["acrobot"], "image": "Me/tasks"}, "--image"),
        ({"environments": ["acrobot"], "image": "ghcr.io/me/tasks:1"}, "--image"),
        ({"environments": ["acrobot"], "image": "ghcr.io/me/tasks; true"}, "--image"),
    ],
)
def test_what_can_not_be_a_task_is_refused(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    """Nothing is written then."""
    with pytest.raises(UsageError, match=message):
        export_harbor(tmp_path / "tasks", **arguments)  # type: ignore[arg-type]

    assert not (tmp_path / "tasks").exists()


def test_the_program_writes_tasks(shell: Shell, tmp_path: Path) -> None:
    """``export harbor`` is beside the formats of runs, and replaces a task only if it is asked to."""
    first = shell.json("export", "harbor", tmp_path, "--environment", "acrobot", "--budget", 4)
    refused = shell("export", "harbor", tmp_path, "--environment", "acrobot")
    printed = shell.printed("export", "harbor", tmp_path, "--environment", "acrobot", "--force")

    assert (first[0]["name"], set(first[0]["files"])) == ("evopolicygym/acrobot", FILES)
    assert refused.code == UsageError.exit_code
    assert "--force" in refused.err
    assert "acrobot" in printed


def test_images_to_pull(shell: Shell, tmp_path: Path) -> None:
    """Tasks name images, which one script builds and pushes; a name changes with what its image is built from."""
    line = (
        "export",
        "harbor",
        tmp_path / "tasks",
        "--environment",
        "acrobot",
        "--image",
        "ghcr.io/me/tasks",
        "--force",
    )
    (first,), (second,) = shell.json(*line, "--budget", 4), shell.json(*line, "--budget", 8)
    document = tomllib.loads((tmp_path / "tasks" / "acrobot" / "task.toml").read_text(encoding="utf-8"))
    compose = (tmp_path / "tasks" / "acrobot" / "environment" / "docker-compose.yaml").read_text(encoding="utf-8")
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    docker.chmod(0o755)
    called = [
        subprocess.run(
            [tmp_path / "tasks" / "images.sh", *words],
            env={**os.environ, "DOCKER": str(docker)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for words in ([], ["push"])
    ]
    images = second["images"]
    agent, judge, verifier = (images[context] for context in ("environment", "environment/judge", "tests"))

    assert (document["environment"]["docker_image"], document["verifier"]["environment"]["docker_image"]) == (
        agent,
        verifier,
    )
    assert (f"image: {judge}\n" in compose, "build:" in compose) == (True, False)
    assert agent.startswith(f"ghcr.io/me/tasks/acrobot-agent:{__version__}-")
    assert called[0] == [f"build --tag {image} acrobot/{context}" for context, image in images.items()]
    assert [word for word in called[1] if word.startswith("push")] == [f"push {image}" for image in images.values()]
    assert [context for context in images if images[context] != first["images"][context]] == ["environment/judge"]


def test_formats_are_asked_for_as_before(shell: Shell, tmp_path: Path) -> None:
    """What is not the name of a kind of tasks is a format of runs."""
    left = shell("export", "harbour", tmp_path, "-o", tmp_path)

    assert left.code == UnknownName.exit_code
    assert "'harbour'" in left.err
