"""The command line: every verb, what it prints where, and how it leaves."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym import __version__
from played_runs import PlayedRun
from shell import ESCAPE, Shell

VERBS = [
    *("run", "resume", "suite", "suites", "environments", "agents", "show", "leaderboard", "compare", "diagnose"),
    *("report", "train", "export", "verify", "audit", "post-hoc", "check", "reveal"),
]
HEAVY = ["numpy", "gymnasium", "starlette", "uvicorn", "cmaes", "scipy"]


@pytest.fixture
def run(played_run: PlayedRun) -> PlayedRun:
    """Return a finished run."""
    return played_run


def plain(text: str) -> str:
    return " ".join(text.split())


# Help


def test_help_names_every_verb(shell: Shell) -> None:
    """The program's help lists its verbs, its exit codes, and where to begin."""
    left = shell("--help")

    assert left.code == 0
    assert all(f" {verb} " in left.out for verb in VERBS)
    assert "130" in left.out
    assert "evopolicygym run acrobot" in left.out


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_examples(shell: Shell, verb: str) -> None:
    """The help of a verb ends with commands that can be copied."""
    left = shell(verb, "--help")

    assert left.code == 0
    assert "Examples" in left.out
    assert f"evopolicygym {verb}" in left.out


def test_nothing_asked_is_answered_with_help(shell: Shell) -> None:
    """Who types the program's name alone is shown what it can do."""
    left = shell()

    assert "Usage" in left.out + left.err


def test_the_version(shell: Shell) -> None:
    """--version says which this is."""
    assert f"evopolicygym {__version__}\n" == shell("--version").out


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], [*HEAVY, "pydantic"]),
        (["--version"], [*HEAVY, "pydantic"]),
        (["run", "--help"], HEAVY),  # typer itself reads a verb's options with pydantic
        (["verify", "-h"], HEAVY),
    ],
)
def test_help_is_quick(arguments: list[str], heavy: list[str]) -> None:
    """Asking for help loads neither numpy, a simulator, a web server nor an optimiser."""
    program = (
        "import sys; sys.argv[0] = 'evopolicygym'\n"
        "from evopolicygym.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print('LOADED', [name for name in {heavy} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)

    assert "LOADED []" in found.stdout


def test_the_package_is_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """python -m evopolicygym is the same program."""
    monkeypatch.setattr(sys, "argv", ["evopolicygym", "--version"])
    with pytest.raises(SystemExit):
        runpy.run_module("evopolicygym", run_name="__main__")

    assert f"evopolicygym {__version__}\n" == capsys.readouterr().out


# What can't be done


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "cartpol"], "'cartpole'"),
        (["run", "cartpole", "--agent", "randon"], "'random'"),
        (["run", "cartpole", "--isolation", "chroot"], "'chroot'"),
        (["run", "cartpole", "--split", "secret"], "'secret'"),
        (["run", "cartpole", "--budget", "0"], "budget"),
        (["run", "cartpole", "--validation", "65"], "1 to 64"),
        (["run", "cartpole", "--held-out", "0"], "1 to 256"),
        (["run", "cartpole", "acrobot"], "cartpole and acrobot"),
        (["run", "cartpole", "--", "/none/agent", "--fast"], "'/none/agent'"),
        (["run", "cartpole", "--", "python3", "none.py"], "'none.py'"),
        (["run"], "TASK"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["check", "planet", "earth"], "'planet'"),
        (["check", "environment", "earth"], "'earth'"),
        (["show", "nowhere"], "nowhere"),
        (["resume", "nowhere"], "nowhere"),
        (["verify", "nowhere"], "nowhere"),
        (["leaderboard"], "runs"),
        (["compare", "a", "b", "--runs", "here"], "here"),
        (["reveal", "nothing", "--yes"], "'nothing'"),
    ],
)
def test_what_can_t_be_done_is_told(
    shell: Shell, arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that nothing answers to leaves with 2, a sentence on stderr, and nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    left = shell(*arguments)

    assert (left.code, left.out) == (2, "")
    assert plain(left.err).startswith("Error: ")
    assert said in plain(left.err)
    assert not list(tmp_path.rglob("journal.jsonl"))


@pytest.mark.parametrize(
    "arguments",
    [["resume"], ["run", "cartpole", "--budget", "many"], ["run", "cartpole", "--nothing"], ["fly"], ["show"]],
)
def test_what_can_t_be_read_is_told(shell: Shell, arguments: list[str]) -> None:
    """An option or verb that doesn't exist leaves with 2 and the usage."""
    left = shell(*arguments)

    assert (left.code, left.out) == (2, "")
    assert "Usage" in left.err


@pytest.mark.parametrize("verb", ["show", "resume"])
def test_a_damaged_record_is_told(shell: Shell, run: PlayedRun, tmp_path: Path, verb: str) -> None:
    """A record that was changed leaves with 3."""
    content = run.paths.journal.read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(content.replace(b'"seed":0', b'"seed":1', 1))
    left = shell(verb, tmp_path)

    assert (left.code, left.out) == (3, "")
    assert "journal" in plain(left.err)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_place_that_can_t_be_written_is_told(shell: Shell) -> None:
    """An error of the system is a sentence, not a traceback."""
    left = shell("run", "cartpole", "--agent", "random", "--runs", "/proc/nowhere")

    assert (left.code, left.out) == (1, "")
    assert "/proc/nowhere" in left.err
    assert "Traceback" not in left.err


# Runs


def test_a_run(shell: Shell, tmp_path: Path) -> None:
    """A run prints its progress on stderr and its outcome on stdout, without colours where nobody looks."""
    numbers = ("--budget", 2, "--validation", 1, "--held-out", 2, "--workers", 1)
    left = shell("run", "cartpole", "--agent", "random", *numbers, "--runs", tmp_path)

    assert left.code == 0
    assert "held-out score" in left.out
    assert "record " in left.out
    assert "evopolicygym verify --replay" in left.out
    assert "submission 0" in left.err
    assert "sandbox, seccomp:" not in left.err  # who didn't ask for --verbose hears nothing
    assert ESCAPE not in left.out + left.err


def test_a_run_in_json(shell: Shell, tmp_path: Path) -> None:
    """With --json a run prints its document and nothing else."""
    numbers = ("--budget", 2, "--validation", 1, "--held-out", 2, "--workers", 1, "--isolation", "process")
    found = shell.json("run", "cartpole", "--agent", "players:make_idler", *numbers, "--runs", tmp_path)

    assert (
        found["stage"],
        found["outcome"]["closed"],
        len(found["outcome"]["held_out_returns"]),
    ) == ("finished", "budget_spent", 2)
    assert Path(found["run"]).is_dir()
    assert found["isolation"]["level"] == "process"


def test_a_run_without_a_wall_warns(shell: Shell, tmp_path: Path) -> None:
    """Isolation none is played only when asked for by name, and is said to be unverified."""
    numbers = ("--budget", 2, "--validation", 1, "--held-out", 2, "--workers", 1, "--isolation", "none")
    left = shell("run", "cartpole", "--agent", "players:make_idler", *numbers, "--runs", tmp_path)

    assert "unverified" in plain(left.err)
    assert "unverified" in plain(left.out)


@pytest.mark.usefixtures("at_home")
def test_resuming_a_finished_run_shows_it(shell: Shell, run: PlayedRun) -> None:
    """A run that is finished is shown as it is."""
    left = shell("resume", run.paths.root)

    assert (left.code, "held-out score" in left.out) == (0, True)
    assert run.state.opened.run_id == shell.json("resume", run.paths.root)["run_id"]


def test_show(shell: Shell, run: PlayedRun) -> None:
    """A run is shown with its submissions and its score."""
    left = shell("show", run.paths.root)

    assert (left.code, left.err) == (0, "")
    assert all(word in left.out for word in ("held-out score", "selected", "import_error", "validation"))
    assert ESCAPE not in left.out


def test_show_in_json(shell: Shell, run: PlayedRun) -> None:
    """With --json a run's document is printed, with where it lies and what is told besides."""
    found = shell.json("show", run.paths.root)
    written = json.loads(run.paths.document.read_text(encoding="utf-8"))
    besides = {"record": found["record"], "unchecked": found["unchecked"]}
    besides |= {"being_played": False, "candidates": 4, "distinct_checkpoints": 3, "first_reached_submission": 3}
    besides |= {
        "entry": "players:make_evolver",
        "random_play": None,
        "experiment_name": "default",
        "selection_optimism": found["selection_optimism"],
        "distinct_held_out_trajectories": found["distinct_held_out_trajectories"],
    }

    assert {"run": str(run.paths.root), **written, **besides} == found


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("options", [[], ["--replay", "--workers", "1"]])
def test_verify(shell: Shell, run: PlayedRun, options: list[str]) -> None:
    """A record in order leaves with 0; with --replay its score was played again."""
    found = shell.json("verify", run.paths.root, *options)

    assert found["ok"]
    assert bool(options) == any(one["what"] == "replay" for one in found["findings"])


@pytest.mark.usefixtures("at_home")
def test_verify_of_a_record_without_its_hidden_episodes(shell: Shell, run: PlayedRun, tmp_path: Path) -> None:
    """Where they were left out, a record is in order once its held-out cases were played again, and not before."""
    slim = tmp_path / "slim"
    shutil.copytree(run.paths.root, slim, ignore=shutil.ignore_patterns("evaluation"))
    unplayed, played = (shell("verify", slim, "--json", *more) for more in ([], ["--replay", "--workers", "1"]))

    assert (unplayed.code, [one["what"] for one in json.loads(unplayed.out)["findings"] if not one["ok"]]) == (
        1, ["evaluation"],
    )  # fmt: skip
    assert (played.code, json.loads(played.out)["ok"]) == (0, True)


@pytest.mark.usefixtures("at_home")
def test_verify_for_a_person(shell: Shell, run: PlayedRun) -> None:
    """Findings are a table, without colours where nobody looks."""
    left = shell("verify", run.paths.root)

    assert (left.code, left.err) == (0, "")
    assert re.search(r"ok +journal", left.out)
    assert re.search(r"\d+", left.out.splitlines()[-1])
    assert ESCAPE not in left.out


def test_verify_of_a_changed_record(shell: Shell, run: PlayedRun, tmp_path: Path) -> None:
    """A record whose event log was changed can't be read: exit code 3, as any other verb has it."""
    content = run.paths.journal.read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(content.replace(b'"seed":0', b'"seed":1', 1))
    left = shell("verify", tmp_path)

    assert left.code == 3
    assert re.search(r"FAILED +journal", left.out)
    assert left.out.splitlines()[-1].startswith("FAILED: journal")


@pytest.mark.usefixtures("at_home")
def test_reveal_asks_first(shell: Shell, run: PlayedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is published only on a yes."""
    monkeypatch.setattr("typer.confirm", lambda _question, **_: sys.exit(7))
    left = shell("reveal", "--runs", run.runs)

    assert (left.code, (run.paths.root.parents[2] / "revealed.json").exists()) == (7, False)


def test_reveal(shell: Shell, tmp_path: Path) -> None:
    """With --yes the secret lies beside the runs."""
    from evopolicygym.records import experiment

    owner = experiment.begin(tmp_path, "mine")
    left = shell("reveal", "mine", "--runs", tmp_path, "--yes")

    assert f"{tmp_path / 'mine' / 'revealed.json'}\n" == left.out
    assert owner.secret.hex() == json.loads(Path(left.out.strip()).read_text())["secret"]


# Tables out


def test_export_says_what_it_wrote(shell: Shell, run: PlayedRun, tmp_path: Path) -> None:
    """Each file is told with its rows and bytes; a second export into the same directory is refused."""
    told = shell.json("export", "csv", run.paths.root, "-o", tmp_path / "out", "--tables", "runs,submissions")
    again = shell("export", "csv", run.paths.root, "-o", tmp_path / "out")
    forced = shell("export", "csv", run.paths.root, "-o", tmp_path / "out", "--force", "--no-steps")

    assert {one["name"]: one["rows"] for one in told["written"]} == {
        "runs": 1,
        "submissions": len(run.state.submissions),
    }
    assert all(Path(one["path"]).stat().st_size == one["bytes"] for one in told["written"])
    assert (again.code, "--force" in again.err) == (2, True)
    assert (forced.code, "episodes" in forced.out) == (0, True)
