"""``evopolicygym new`` writes a package for each kind of part, which is installed, checked and used as it is."""

import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.checks import KINDS
from evopolicygym.checks.new_package import TEMPLATES, commands, write_package
from places import ROOT
from shell import Shell

RECORD = ROOT / "results" / "examples" / "outside" / "parking"
NAMES = {kind: f"my_{kind}" for kind in KINDS}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of Python's path with a package of each kind, laid out as pip installs them."""
    place = tmp_path_factory.mktemp("site")
    for kind, name in NAMES.items():
        package = write_package(kind, name, place / f"{name}.written")
        project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (package / name).rename(place / name)
        metadata = place / f"{name}-{project['version']}.dist-info"
        metadata.mkdir()
        fields = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
        lines = [f"{field}: {value}\n" for field, value in {**fields, "Summary": project["description"]}.items()]
        (metadata / "METADATA").write_text("".join(lines), encoding="utf-8")
        ((group, points),) = project["entry-points"].items()
        lines = [f"[{group}]\n", *(f"{point} = {value}\n" for point, value in points.items())]
        (metadata / "entry_points.txt").write_text("".join(lines), encoding="utf-8")
    return place


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the packages on Python's path, also on that of programs."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH")))))
    monkeypatch.syspath_prepend(packages)
    yield
    for name in NAMES.values():
        sys.modules.pop(name, None)


def test_each_kind_has_a_template() -> None:
    """What can be checked can be written."""
    folders = (ROOT / "src" / "evopolicygym" / "checks" / TEMPLATES).iterdir()

    assert {folder.name for folder in folders} == set(KINDS)


@pytest.mark.usefixtures("installed")
def test_written_parts_play_a_run(tmp_path: Path) -> None:
    """A run is played by written parts alone: environment, agent, executor, sandbox and tracker."""
    run = evopolicygym.run(
        "my_environment", agent="my_agent", executor="my_executor", isolation="my_sandbox", track="my_tracker",
        budget=4, validation=1, held_out=2, runs=tmp_path,
    )  # fmt: skip
    (points,) = (tmp_path / ".tracking").glob("*.jsonl")
    lines = [json.loads(line) for line in points.read_text(encoding="utf-8").splitlines()]

    assert (run.task, run.agent, len(run.submissions)) == ("my_environment", "my_agent", 2)
    assert run.summary["repeats"] is True  # looked at, as nobody has before
    assert run.score is not None
    assert "my_executor: 2 episodes" in "".join(log.read_text(encoding="utf-8") for log in run.path.rglob("*.log"))
    assert json.loads((run.path / "run.json").read_bytes())["isolation"]["findings"]["priority"] == "niceness 19"
    assert lines[0]["task"] == "my_environment"
    assert lines[-1]["summary"]["held_out_score"] == pytest.approx(run.score)


@pytest.mark.usefixtures("installed")
def test_written_parts_read_a_run(shell: Shell, tmp_path: Path) -> None:
    """A record that ships is exported, drawn and measured by written parts."""
    shell.printed("export", "my_exporter", RECORD, "-o", tmp_path / "data")
    figures = ("--only", "my_figure", "--format", "svg", "--no-pages")
    shell.printed("report", RECORD, "-o", tmp_path / "report", *figures)
    (measured,) = shell.json("diagnose", RECORD, "--only", "my_diagnostic")["runs"]
    header, *rows = (tmp_path / "data" / "submissions.tsv").read_text(encoding="utf-8").splitlines()

    assert "train_mean" in header.split("\t")
    assert len(rows) == len(measured["my_diagnostic"]["episodes"]) > 1
    assert (tmp_path / "report" / "figures" / "my_figure.svg").is_file()


@pytest.mark.usefixtures("installed")
def test_written_parts_are_listed(shell: Shell) -> None:
    """An agent and an environment of a package are in the listings, the agent with its own ABOUT, which isn't run."""
    (agent,) = (agent for agent in shell.json("agents") if agent["name"] == "my_agent")

    assert agent["source"] == "my-agent 0.1.0"
    assert agent["summary"].startswith("climbs: ")
    assert "my_agent" not in sys.modules
    assert "my_environment" in {environment["name"] for environment in shell.json("environments")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trackr", "mine"), "Did you mean 'tracker'?"),
        (("tracker", "9 lives"), "Invalid NAME"),
        (("tracker", "Mine"), "Invalid NAME"),
        (("tracker", "a/b"), "Invalid NAME"),
        (("tracker", "class"), "Invalid NAME"),
        (("tracker", "json"), "Invalid NAME"),
        (("tracker", "numpy"), "Invalid NAME"),
        (("tracker", "evopolicygym"), "Invalid NAME"),
        (("tracker", "wandb-"), "Invalid NAME"),
        (("tracker", "wandb"), "Invalid NAME"),
        (("environment", "cartpole"), "Invalid NAME"),
        (("tracker", "mine", "-o", "there"), "Invalid directory there"),
        (("tracker", "there"), "Invalid directory there"),
        (("tracker", "mine", "-o", "there/file/mine"), "Invalid directory there/file/mine"),
    ],
)
def test_what_cannot_be_written_is_refused(
    words: tuple[str, ...], message: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown kind, a name that no new package can have, and a directory that is there leave everything as it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("kept", encoding="utf-8")
    left = shell("new", *words)

    assert (left.code, message in left.err) == (2, True), left.err
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "file"]
    assert (tmp_path / "there" / "file").read_text(encoding="utf-8") == "kept"


def test_a_written_package_names_what_comes_next(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb prints the commands of the README; no placeholder is left in any file."""
    monkeypatch.chdir(tmp_path)
    printed = shell.printed("new", "figure", "held-out-dots")
    texts = [file.read_text(encoding="utf-8") for file in tmp_path.rglob("*") if file.is_file()]

    assert "evopolicygym check figure held_out_dots" in printed
    assert (tmp_path / "held-out-dots" / "held_out_dots" / "__init__.py").is_file()
    assert not any("part_name" in text or "part-name" in text for text in texts)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_packages_are_installed_checked_and_used(tmp_path: Path) -> None:
    """In a fresh environment, what each package's README has one type works: it is installed, checked, used, tested."""
    venv.create(tmp_path / "fresh", with_pip=True)
    programs = tmp_path / "fresh" / "bin"
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, f"{ROOT}[figures]", "pytest"], check=True)
    homes = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONPATH": ""}
    environment = {**os.environ, **homes, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}
    failed = {}
    for kind, name in NAMES.items():
        subprocess.run([programs / "evopolicygym", "new", kind, name], cwd=tmp_path, env=environment, check=True)
        typed = "\n".join(commands(tmp_path / name))
        done = subprocess.run(["/bin/sh", "-exc", typed], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            failed[name] = done.stdout + done.stderr

    assert failed == {}
