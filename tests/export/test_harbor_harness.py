"""Harbor itself: its models, its linter and Compose find nothing amiss in the tasks of core16, and it plays one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.api.play.harbor import export_harbor
from evopolicygym.runs.suites.suite import load_suite
from harbor_topology import PYTHON
from places import ROOT, SUPPORT

HARBOR = ROOT / ".harbor" / "bin"
READ = """
import json, sys
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import resolve_task_verifier_mode
found = {}
for path in sys.argv[1:]:
    config = Task(path).config
    mode = resolve_task_verifier_mode(config).value
    found[config.task.name] = [config.agent.user, config.verifier.user, mode]
print(json.dumps(found))
"""
COMPOSE_FILES = """
from pathlib import Path
import harbor.environments.docker
folder = Path(harbor.environments.docker.__file__).parent
print(folder / "docker-compose-build.yaml", folder / "docker-compose-no-network.yaml")
"""
pytestmark = [
    pytest.mark.skipif(
        not (HARBOR / "harbor").is_file(),
        reason="Harbor isn't installed; `make harbor` does so, with Python 3.12 or newer",
    ),
    pytest.mark.nightly,
]


def call(*words: object, **variables: str) -> str:
    """Return what a program prints, with Compose beside it; it must end well."""
    path = f"{HARBOR}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CONTEXT_DIR": ".", "COLUMNS": "200", **variables}
    line = [str(HARBOR / str(words[0])), *map(str, words[1:])]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the directories of all sixteen tasks."""
    return [one.directory for one in export_harbor(tmp_path_factory.mktemp("tasks"))]


def test_harbor_reads_every_task(tasks: list[Path]) -> None:
    """Its models take them, with an agent that is not root, and a verifier that is."""
    found = json.loads(call("python", "-c", READ, *tasks))

    assert found == {
        f"evopolicygym/{name}": ["agent", "root", "separate"] for name in load_suite("core16", {}).environments
    }


def test_harbors_linter_finds_nothing(tasks: list[Path]) -> None:
    """It finds neither fields that it doesn't know nor what it advises against, but for images without a digest."""
    found = json.loads(call("harbor", "lint", "--json", *tasks))
    everything = subprocess.run(
        [HARBOR / "harbor", "lint", "--json", "--select", "ALL", tasks[0]],
        env={**os.environ, "PATH": f"{HARBOR}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )

    assert found == []
    assert {one["rule"] for one in json.loads(everything.stdout)} == {"unpinned-image"}


READ_IMAGES = """
import json, sys
from harbor.models.task.task import Task
config = Task(sys.argv[1]).config
print(json.dumps([config.environment.docker_image, config.verifier.environment.docker_image]))
"""


def test_harbor_pulls_images(tmp_path: Path) -> None:
    """It takes the images that a task names for the agent and the verifier, and Compose that of the judge."""
    (task,) = export_harbor(tmp_path, environments=["acrobot"], image="ghcr.io/me/tasks")
    agent, judge, verifier = (task.images[context] for context in ("environment", "environment/judge", "tests"))
    folder = call("python", "-c", COMPOSE_FILES).split()[0].rpartition("/")[0]
    ours = task.directory / "environment" / "docker-compose.yaml"
    files = [word for file in (f"{folder}/docker-compose-prebuilt.yaml", ours) for word in ("-f", file)]
    place = ("--project-name", "one", "--project-directory", ours.parent)
    line = ("docker", "compose", *place, *files, "config", "--format", "json")
    merged = json.loads(call(*line, PREBUILT_IMAGE_NAME=agent))["services"]

    assert json.loads(call("python", "-c", READ_IMAGES, task.directory)) == [agent, verifier]
    assert (merged["main"]["image"], merged["judge"]["image"]) == (agent, judge)
    assert [name for name, service in merged.items() if "build" in service] == []
    assert json.loads(call("harbor", "lint", "--json", task.directory)) == []


@pytest.mark.parametrize("network", ["public", "none"])
def test_compose_merges_harbors_files_with_ours(tasks: list[Path], network: str) -> None:
    """The agent's container shares two volumes with the judge's, which has no network; nor need the agent's."""
    build, no_network = call("python", "-c", COMPOSE_FILES).split()
    ours = tasks[0] / "environment" / "docker-compose.yaml"
    files = [word for file in (build, ours, *([no_network] if network == "none" else [])) for word in ("-f", file)]
    place = ("--project-name", "one", "--project-directory", ours.parent)
    merged = json.loads(call("docker", "compose", *place, *files, "config", "--format", "json"))
    main, judge = merged["services"]["main"], merged["services"]["judge"]
    shared = [{one["target"]: one["source"] for one in service["volumes"]} for service in (main, judge)]

    assert shared == [{f"/{name}": name for name in ("workspace", "socket")}] * 2
    assert main["depends_on"] == {"judge": {"condition": "service_healthy", "required": True}}
    assert judge["build"]["context"] == str(ours.parent / "judge")
    assert (main.get("network_mode", "public"), judge["network_mode"]) == (network, "none")


FORGE = """#!/bin/bash
plant() {
    for place in verifier artifacts agent; do
        echo '{"reward": 1000.0}' > /logs/$place/reward.json
        echo 1000 > /logs/$place/reward.txt
    done
}
mkdir -p /logs/artifacts/outcome && echo '{"outcome": {"score": 1e9}}' > /logs/artifacts/outcome/outcome.json
plant
(while true; do plant; sleep 0.01; done) > /dev/null 2>&1 < /dev/null &
"""
"""An agent that plants rewards wherever Harbor mounts a directory for it, and leaves a process that goes on with it."""


@pytest.mark.parametrize(
    ("agent", "solution", "expected"), [("nop", "", 0.0), ("oracle", "", 1.0), ("oracle", FORGE, 0.0)]
)
def test_harbor_plays_a_task(tmp_path: Path, agent: str, solution: str, expected: float) -> None:
    """Its own check of a task: doing nothing is worth 0 and the solution 1, and it fetches the record.

    Planted rewards are worth nothing, with a process left behind too.
    """
    (task,) = export_harbor(tmp_path / "tasks", environments=["reacher"], budget=4, validation=1, held_out=2)
    if solution:
        (task.directory / "solution" / "solve.sh").write_text(solution, encoding="utf-8")
    line = [HARBOR / "harbor", "run", "-p", task.directory, "-a", agent, "-e", "harbor_environment:Processes"]
    done = subprocess.run(
        [*line, "-o", tmp_path / "jobs", "-y"],
        env={
            **os.environ,
            PYTHON: sys.executable,
            "PYTHONPATH": str(SUPPORT),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    (trial,) = (path.parent for path in tmp_path.glob("jobs/*/*/result.json"))
    result = json.loads((trial / "result.json").read_bytes())

    assert done.returncode == 0, done.stdout
    assert result["verifier_result"]["rewards"] == {"reward": pytest.approx(expected, abs=0.15)}
    assert {path.name for path in (trial / "artifacts" / "judge").iterdir()} >= {"outcome.json", "record.tar.gz"}
