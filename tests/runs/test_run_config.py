"""A run as it is asked for: the TOML file, the command line over it, and what both refuse before anything is played."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evopolicygym.cli.main import app
from evopolicygym.cli.play_options import parse_json_pairs, parse_pairs
from evopolicygym.core.agent import IN_WORKSPACE, Allowance, Rates
from evopolicygym.core.errors import UsageError
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.skill import skill_identity
from evopolicygym.runs.config import RunConfig, decode_run_config, merge_tables, parse_duration, read_table
from evopolicygym.runs.run import play
from evopolicygym.runs.workspace import add_skill, create_workspace

WHOLE = """
task = "cartpole"
budget = 20
held_out = 3
split = "public"

[agent]
name = "codex"
model = "gpt-5.5"
effort = "high"
model_url = "https://models.example.com/v1"
model_key = "MY_KEY"

[agent.options]
quiet_s = 900

[agent.limits]
max_cost = 5
max_time = "1h30m"

[agent.price]
input = 1.25
output = 10
"""


def asked(text: str, directory: Path, **given: Any) -> RunConfig:
    """Return the run that a file asks for, with what the command line says over it."""
    file = directory / "run.toml"
    file.write_text(text, encoding="utf-8")
    return decode_run_config(merge_tables(read_table(file), given), "run.toml")


def test_whole_file(tmp_path: Path) -> None:
    """A file says all that the command line can say of a run, and leaves the rest as it is by default."""
    run = asked(WHOLE, tmp_path)
    agent = run.agent

    assert (run.task.environment.name, run.task.budget.episodes, run.task.held_out_cases) == ("cartpole", 20, 3)
    assert (run.task.validation_cases, run.split.value, run.workers) == (16, "public", None)
    assert (agent.name, agent.model, agent.effort) == ("codex", "gpt-5.5", "high")
    assert agent.options == {"quiet_s": 900, "model_url": "https://models.example.com/v1", "model_key": "MY_KEY"}
    assert agent.allowance == Allowance(cost=5, seconds=5400)
    assert run.price is not None
    assert (run.price.rates, run.price.source) == (Rates(1.25, 10), "given")


def test_command_line_wins(tmp_path: Path) -> None:
    """What is given besides a file wins over it name by name, in its tables too; the rest stands."""
    run = asked(WHOLE, tmp_path, budget=7, agent={"effort": "low", "limits": {"max_cost": 1.0}})

    assert (run.task.budget.episodes, run.task.held_out_cases) == (7, 3)
    assert (run.agent.effort, run.agent.model) == ("low", "gpt-5.5")
    assert run.agent.allowance == Allowance(cost=1, seconds=5400)


REFUSED = {
    'task = "cartpole"\nbuget = 3': "buget.*budget",
    'task = "cartpole"\n[agent.limits]\nmax_cst = 3': r"agent\.limits\.max_cst.*max_cost",
    'task = "cartpole"\n[agent.price]\ninput = 3': r"agent\.price\.output",
    'task = "cartpole"\nbudget = "many"': "budget.*integer",
    "budget = 3": "task",
    'task = "cartpole"\n[agent]\napi_key = "sk-secret-1"': r"agent\.api_key.*model_key",
    'task = "cartpole"\n[agent]\nmodel_key = "sk-secret-1"': "model_key",
    'task = "cartpole"\n[agent]\nmodel_key = "AIzaSecret1"': "model_key",
    'task = "cartpole"\n[agent.options]\napi_token = "sk-secret-1"': "api_token",
    'task = "cartpole"\n[agent]\neffort = "as much as you can"': "effort",
    'task = "cartpole"\n[agent]\nname = "codex"\ncommand = ["x"]': "command",
    'task = "cartpole"\n[agent.limits]\nmax_time = "soon"': "2h30m",
    'task = "cartpole"\n[agent.limits]\nmax_tokens = 0': "tokens",
    'task = "cartpole"\nseed = -1': "seed.* 0 .*4294967295.* -1",
    'task = "cartpole"\nseed = 4294967296': "4294967296",
    "task = ": r"run\.toml",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items())
def test_refused_files(text: str, said: str, tmp_path: Path) -> None:
    """What a file can't say is refused with what would work, and what might be a key is never repeated."""
    with pytest.raises(UsageError, match=said) as refused:
        asked(text, tmp_path)

    assert "ecret" not in str(refused.value).replace("secret.", "")


@pytest.mark.parametrize(
    ("agent", "seconds"),
    [
        ('command = ["sleep", "600"]', 86_400),
        ('command = ["sleep", "600"]\n[agent.limits]\nmax_tokens = 5', 86_400),
        ('command = ["sleep", "600"]\n[agent.limits]\nmax_time = "2h"', 7200),
        ('command = ["sleep", "600"]\n[agent.limits]\nmax_time = "none"', None),
        ('name = "codex"', None),
    ],
)
def test_a_program_of_the_users_is_ended_after_a_day(agent: str, seconds: float | None, tmp_path: Path) -> None:
    """A program has a day by default, so that none holds a run for ever; another time, or none, is to be asked for."""
    assert seconds == asked(f'task = "cartpole"\n[agent]\n{agent}', tmp_path).agent.allowance.seconds


def test_seeds(tmp_path: Path) -> None:
    """Every seed that numpy takes can be asked for."""
    assert [asked('task = "cartpole"', tmp_path, seed=seed).seed for seed in (0, 2**32 - 1)] == [0, 2**32 - 1]


def test_files_in_a_command_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that is the path of a file here is recorded as absolute, and a link not followed; no other is changed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    for name in ("agent.py", "own/run", "AGENTS.md", "judge", "true"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to("agent.py")
    long, absolute = "print()" * 100, str(tmp_path / "own" / ".." / "agent.py")
    words = [
        "true",
        "agent.py",
        "./own/../agent.py",
        "link",
        "own",
        "AGENTS.md",
        "./judge",
        "-c",
        long,
        absolute,
        "no.py",
    ]
    run, program = (asked('task = "cartpole"', tmp_path, agent={"command": one}) for one in (words, ["./own/run"]))

    assert run.agent.command == (
        *("true", f"{tmp_path}/agent.py", f"{tmp_path}/agent.py", f"{tmp_path}/link", "own", "AGENTS.md", "./judge"),
        *("-c", long, absolute, "no.py"),
    )
    assert program.agent.command == (f"{tmp_path}/own/run",)


def test_workspaces_hold_what_commands_may_mean(tmp_path: Path) -> None:
    """What a command's words may name in the workspace is what is laid in every workspace."""
    create_workspace(RunPaths(tmp_path))
    skill = Path(__file__).parents[2] / "skills" / "evopolicygym"
    add_skill(RunPaths(tmp_path), skill, skill_identity(skill))

    assert {path.name for path in (tmp_path / "workspace").iterdir()} == IN_WORKSPACE


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), (90.5, 90.5), ("90s", 90), ("45m", 2700), ("2h30m", 9000), ("1d", 86400)]
)
def test_durations(text: float | str, seconds: float) -> None:
    """A time is a number of seconds, or days, hours, minutes and seconds in this order."""
    assert parse_duration(text) == seconds


def test_options_of_an_agent() -> None:
    """Options are NAME=VALUE; whole numbers and fractions become numbers, and all else stays a text."""
    assert parse_pairs("--option", ["quiet_s=9", "program=/opt/a=b", "x=0.5"]) == {
        "quiet_s": 9, "program": "/opt/a=b", "x": 0.5,
    }  # fmt: skip
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse_pairs("--option", ["quiet_s"])


def test_arguments_of_a_simulator() -> None:
    """An argument of gymnasium.make is a number or other JSON, as Python spells it too; all else stays a text."""
    typed = ["slippery=false", "wind=True", "map_name=8x8", "sizes=[3, 4]", "g=9.81", "desc=None"]
    assert parse_json_pairs("--make", typed) == {
        "slippery": False, "wind": True, "map_name": "8x8", "sizes": [3, 4], "g": 9.81, "desc": None,
    }  # fmt: skip


def test_option_that_an_agent_does_not_know(tmp_path: Path) -> None:
    """An option that is none of an agent's is refused before anything is opened, with those that it has."""
    run = asked(
        'task = "cartpole"',
        tmp_path,
        runs=str(tmp_path / "runs"),
        agent={"command": ["true"], "options": {"memry_mb": 3}},
    )
    with pytest.raises(UsageError, match=r"memry_mb.*memory_mb"):
        play(run, lambda _paths, _state: None, lambda _event, _state: None)

    assert not (tmp_path / "runs").exists()


def test_run_from_a_file_by_the_program(tmp_path: Path) -> None:
    """The program plays what a file says, its task included; without a task it says where one may stand."""
    file = tmp_path / "run.toml"
    cases = "budget = 1\nvalidation = 1\nheld_out = 1\n"
    rest = f'runs = "{tmp_path}"\nisolation = "none"\n[agent]\nname = "random"\n'
    file.write_text(f'task = "cartpole"\n{cases}{rest}', encoding="utf-8")
    played = CliRunner().invoke(app, ["run", "--config", str(file), "--json"])
    without = CliRunner().invoke(app, ["run"])

    assert played.exit_code == 0, played.output
    assert '"agent": {\n    "name": "random"' in played.stdout
    assert isinstance(without.exception, UsageError)
    assert "configuration file" in str(without.exception)
