"""What an agent is shown and allowed: each knob is a flag, a key and an argument, is recorded, and is kept to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.analysis.ranking.comparability import SPLIT_BY, TableFilter, comparable
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.agent import OUTSIDE
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import CloseReason
from evopolicygym.core.interface import draw_interface
from evopolicygym.core.options import KNOBS, RUN_OPTIONS, Option, Spelling, format_setting, get_setting
from evopolicygym.core.run import fold
from evopolicygym.core.task import Limits
from evopolicygym.judge.feedback import visible
from evopolicygym.records import task_text
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.rows import RunRow, columns
from evopolicygym.records.run_document import read_summary
from evopolicygym.records.skill import skill_identity
from evopolicygym.runs.config import resolve_run_config
from fakes import FakeExecutor, opening
from made_up import load_result
from played_runs import PlayedRun
from players import GOOD
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

CHOSEN: dict[str, Any] = {
    "text": "terse",
    "interface": "permuted",
    "world": str(Path(__file__).parents[1] / "support" / "worlds" / "late.toml"),
    "feedback": "returns",
    "memory": "none",
    "skill": str(Path(__file__).parents[2] / "skills" / "evopolicygym"),
    "finish": True,
    "min_episodes": 2,
    "max_episodes": 3,
    "max_submissions": 4,
    "train_cases": 5,
    "policy_limits": {"act_s": 2, "memory_mb": 700},
}
"""Another value than the default of each; a new knob needs one here."""
FURTHER: dict[str, Any] = {"budget": 64, "validation": 8, "held_out": 16, "films": 2, "policy_packages": ["torch"]}
"""The same of the other options in which pooled runs must agree."""
SHOWN: dict[str, tuple[set[str], bool]] = {
    "text": ({"task_text"}, True),
    "interface": ({"interface"}, True),
    "world": (set(), True),
    "feedback": ({"feedback_profile"}, False),
    "memory": ({"max_submissions", "state.remaining_submissions"}, True),
    "skill": (set(), False),
    "finish": ({"finish_allowed"}, True),
    "min_episodes": ({"min_episodes_per_submit"}, True),
    "max_episodes": ({"max_episodes_per_submit"}, True),
    "max_submissions": ({"max_submissions", "state.remaining_submissions"}, True),
    "train_cases": ({"env_meta.n_env_instances"}, True),
    "policy_limits": ({"resource_limits.act_s", "resource_limits.memory_mb"}, False),
    "budget": ({"episode_budget", "max_episodes_per_submit", "state.remaining_budget"}, True),
    "validation": ({"selection.validation_cases"}, True),
    "held_out": (set(), True),
    "films": ({"max_films", "max_films_per_submit", "state.remaining_films"}, True),
    "policy_packages": (set(), True),
}
"""What of `/info` each changes for the agent, and whether the task's text; a new one needs a line here."""
SMALL: dict[str, Any] = {"budget": 6, "validation": 1, "held_out": 2, "split": "public", "workers": 1}
AGREED = [option for option in RUN_OPTIONS if option.comparability_label]
agreed = pytest.mark.parametrize("option", AGREED, ids=lambda one: one.name)
each = pytest.mark.parametrize("knob", KNOBS, ids=lambda one: one.name)


def words(knob: Option) -> list[str]:
    """Return how the command line spells a knob's chosen value."""
    value = CHOSEN[knob.name]
    if value is True:
        return [knob.flag]
    many = [f"{name}={of}" for name, of in value.items()] if knob.spelling is Spelling.PAIRS else [str(value)]
    return [word for one in many for word in (knob.flag, one)]


def toml(knob: Option) -> str:
    """Return a run's file that holds a knob's chosen value."""
    value = CHOSEN[knob.name]
    line = f"{knob.key} = {json.dumps(value)}"
    if isinstance(value, dict):
        line = "\n".join([f"[{knob.key}]", *(f"{name} = {of}" for name, of in value.items())])
    return f'task = "cartpole"\n{line}\n'


def expected(knob: Option) -> object:
    """Return a knob's chosen value as a record has it; of a world, its name, of a skill, its digest too."""
    if knob.name == "skill":
        return skill_identity(Path(CHOSEN["skill"]))
    value = "late" if knob.name == "world" else CHOSEN[knob.name]
    return format_setting(Limits(**value)) if isinstance(value, dict) else format_setting(value)


@pytest.fixture
def result(tmp_path: Path) -> Callable[..., RunRow]:
    """Return what makes a record of an agent whose run was set to these options, and reads it."""
    document = real_document(tmp_path / "real")

    def made(agent: str = "one", **chosen: Any) -> RunRow:
        new = changed(document, "acrobot", agent, [-90.0, -80.0] * (chosen.get("held_out", 32) // 2))
        new["task"] |= recorded(**chosen)
        new["budget"]["episodes"] = new["task"]["budget"]["episodes"]
        return load_result(write(tmp_path / "runs", new))

    return made


def recorded(**chosen: Any) -> dict[str, Any]:
    """Return what of a task's record such options decide."""
    task = resolve_run_config("acrobot", "random", chosen)[0].task
    fields = ("budget", "train_cases", "validation_cases", "held_out_cases", "limits", "feedback", "finish_allowed")
    fields += ("films", "policy_packages", "choices")
    found: dict[str, Any] = json.loads(json.dumps({name: getattr(task, name) for name in fields}, default=vars_of))
    return found


def vars_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def feedback_files(root: Path) -> set[str]:
    """Return the names of files that a run's agent was given as feedback."""
    return {path.name for path in (root / "workspace" / "feedback").rglob("*") if path.is_file()}


@each
def test_a_file_and_an_argument_set_it(knob: Option, tmp_path: Path) -> None:
    """The key of a file and the argument of `run` both come to the value, and neither to the default."""
    (tmp_path / "run.toml").write_text(toml(knob), encoding="utf-8")
    by_file, _ = resolve_run_config(None, None, {}, tmp_path / "run.toml")
    by_argument, _ = resolve_run_config("cartpole", None, {knob.name: CHOSEN[knob.name]})

    assert get_setting(by_file.task, knob) == get_setting(by_argument.task, knob) == expected(knob)
    by_default, _ = resolve_run_config("cartpole", None, {})
    assert expected(knob) != get_setting(by_default.task, knob) == format_setting(knob.default)


@agreed
def test_exports_tell_it(option: Option, result: Callable[..., RunRow]) -> None:
    """The exported column of an option differs where it does, and no other column."""
    before, after = result(), result(**{option.name: {**CHOSEN, **FURTHER}[option.name]})
    told = {each.name for each in columns(RunRow) if each.cell(before) != each.cell(after)}

    name = "finish_allowed" if option.name == "finish" else option.record_field or option.name
    assert told - {"score_standard_error"} == {name}  # more held-out cases have another error


def shown(**chosen: Any) -> tuple[dict[str, Any], str]:
    """Return what an agent of such a run is shown: the fields of `/info`, and the text of `/task`."""
    task = resolve_run_config("cartpole", None, chosen)[0].task
    plain, interface = opening(), {}
    if task.interface != "standard":
        interface = draw_interface(b"key", task.interface, plain.observation_schema, plain.action_schema)
    state = visible(fold([opening(task=task, interface=interface)]))
    answer = task_text.info(state, FakeExecutor().info)
    inner = [name for name, value in answer.items() if isinstance(value, dict)]
    flat = {f"{name}.{key}": value for name in inner for key, value in answer[name].items()}
    return {**{name: value for name, value in answer.items() if name not in inner}, **flat}, task_text.task_text(state)


def test_the_tables_have_every_option_in_which_runs_must_agree() -> None:
    """A new knob can't be without a line in what these tests know."""
    assert SHOWN.keys() == {**CHOSEN, **FURTHER}.keys() == {one.name for one in AGREED}


@agreed
def test_it_changes_what_the_agent_sees_and_nothing_else(option: Option) -> None:
    """Of two runs that differ in one option alone, `/info` and the task's text differ in what the option says."""
    (before, text), (after, other_text) = shown(), shown(**{option.name: {**CHOSEN, **FURTHER}[option.name]})
    changed_fields = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    assert (changed_fields, text != other_text) == SHOWN[option.name]


@agreed
def test_the_record_says_it(option: Option, result: Callable[..., RunRow]) -> None:
    """What a run's file holds of the option is read again as it was chosen, and no other option with it."""
    value = {**CHOSEN, **FURTHER}[option.name]
    summaries = [read_summary(RunPaths(one.root)) for one in (result(), result(**{option.name: value}))]
    before, after = ({one.name: get_setting(found.task, one) for one in AGREED} for found in summaries)

    assert {name for name in before if before[name] != after[name]} == {option.name}
    assert after[option.name] == get_setting(resolve_run_config("acrobot", None, {option.name: value})[0].task, option)


@agreed
def test_runs_that_differ_in_it_are_not_pooled(option: Option, result: Callable[..., RunRow]) -> None:
    """They stand in two tables, and one table of both is refused with the option's name."""
    both = [result(), result(**{option.name: {**CHOSEN, **FURTHER}[option.name]})]

    assert [len(comparable(runs, ())) for runs in (both, both[:1], both[1:])] == [2, 1, 1]
    with pytest.raises(UsageError, match=option.comparability_label):
        score_table(both, [])


@pytest.mark.parametrize("knob", [knob for knob in KNOBS if not knob.affects_cases], ids=lambda one: one.name)
def test_what_was_chosen_is_not_pooled_with_the_default(knob: Option, result: Callable[..., RunRow]) -> None:
    """Runs that differ in it stand in tables of their own, whose titles say so, or are entries of their own."""
    runs = [result(), result(**{knob.name: CHOSEN[knob.name]})]
    titles = [one.title for one in comparable(runs, ())]

    assert len(titles) == 2
    assert all(title.removeprefix("no ").startswith(knob.name.replace("_", " ")) for title in titles)
    assert knob.name in SPLIT_BY
    assert len([one for one in score_table(runs, [], TableFilter(by=(knob.name,))).entries if one.kind == "agent"]) == 2
    with pytest.raises(UsageError, match=knob.comparability_label):
        score_table(runs, [])


def test_an_agent_outside_may_always_finish(result: Callable[..., RunRow]) -> None:
    """Whether the agent may end a run early sets no run of an outside agent apart."""
    outside = result(OUTSIDE, finish=True)

    assert [len(comparable([one, outside], ())) for one in (result(), result(finish=True))] == [1, 1]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--text", "short"), "'full' or 'terse'"),
        (("--memory", "some"), "'full' or 'none'"),
        (("--feedback", "none"), "'full', 'traces' or 'returns'"),
        (("--min-episodes", "7"), "7, 6 and 6"),
        (("--min-episodes", "3", "--max-episodes", "2"), "3, 2 and 6"),
        (("--max-submissions", "0"), "1"),
        (("--train-cases", "0"), "1 to 1024"),
        (("--policy-limit", "act=2"), "policy_limits.act"),
        (("--policy-limit", "act_s"), "--policy-limit"),
        (("--policy-limit", "act_s=0"), "act_s"),
        (("--policy-limit", "memory_mb=0.5"), "policy_limits.memory_mb"),
        (("--feedback", "returns", "--films", "1"), "1 films"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_is_invalid_is_refused(flags: tuple[str, ...], said: str, shell: Shell, tmp_path: Path) -> None:
    """A value that can't be is refused with what would work, and nothing is written."""
    left = shell("run", "cartpole", "--agent", "random", "--budget", 6, "--runs", tmp_path / "runs", *flags)

    assert left.code == 2
    assert said in " ".join(left.err.replace("│", " ").split())
    assert not (tmp_path / "runs").exists()


def test_the_command_line_sets_all_of_them(shell: Shell, tmp_path: Path) -> None:
    """One run with every knob set is played, keeps to all of them, and records each."""
    knobs = [knob for knob in KNOBS if knob.name != "memory"]  # which such an agent can't be without
    flags = [word for knob in knobs for word in words(knob)]
    sizes = ("--budget", 6, "--validation", 1, "--held-out", 2, "--split", "public", "--workers", 1)
    outcome = shell.json("run", "cartpole", "--agent", "random", *sizes, "--runs", tmp_path / "runs", *flags)
    state = read_run(Path(outcome["run"])).state

    assert {knob.name: get_setting(state.opened.task, knob) for knob in knobs} == {
        one.name: expected(one) for one in knobs
    }
    assert {len(one.episodes) for one in state.submissions} == {3}
    told = " ".join(shell.printed("show", outcome["run"]).replace("│", " ").split())
    assert "feedback returns, skill evopolicygym" in told
    assert "finish, min episodes 2" in told
    assert {case for one in state.submissions for case in one.charged.env_instances} <= set(range(5))


def test_feedback_of_returns_holds_no_file_of_an_episode(played_run: PlayedRun, tmp_path: Path) -> None:
    """Of the profiles, `full` leaves each episode's files to the agent, `returns` the summary alone."""
    run = evopolicygym.run("cartpole", "random", feedback="returns", runs=tmp_path, **{**SMALL, "budget": 2})

    assert "trajectory.jsonl" in feedback_files(played_run.paths.root)
    assert feedback_files(run.path) == {"summary.json"}


@pytest.mark.parametrize("agent", ["tuner", "random_search"])
def test_an_optimiser_that_reads_output_refuses_returns(agent: str, tmp_path: Path) -> None:
    """What it can't play without is named before anything is written."""
    with pytest.raises(UsageError, match="feedback"):
        evopolicygym.run("cartpole", agent, feedback="returns", runs=tmp_path, **SMALL)
    assert not list(tmp_path.rglob("run.json"))


def test_a_run_may_be_finished_early(tmp_path: Path) -> None:
    """An agent that may finish does so, with episodes left; one that may not plays on."""

    def leaver(session: evopolicygym.Session) -> None:
        session.submit(episodes=2)
        session.evaluator._judge.finish()

    run = evopolicygym.run("cartpole", leaver, finish=True, runs=tmp_path, **SMALL)
    state = read_run(run.path).state

    assert (state.spent, state.closed and state.closed.reason) == (2, CloseReason.FINISH_ASKED)


@pytest.mark.parametrize(
    "agent", ["random", *(pytest.param(agent, marks=pytest.mark.nightly) for agent in ("tuner", "random_search"))]
)
def test_the_run_closes_with_the_last_submission(agent: str, tmp_path: Path) -> None:
    """With so many submissions made, the run is scored, and says why episodes are left."""
    run = evopolicygym.run("cartpole", agent, max_submissions=2, runs=tmp_path, **{**SMALL, "budget": 40})
    state = read_run(run.path).state

    assert (len(state.submissions), state.remaining > 0, run.score is not None) == (2, True, True)
    assert state.closed
    assert state.closed.reason is CloseReason.SUBMISSIONS_SPENT


def test_a_limit_of_a_policy_is_kept(tmp_path: Path) -> None:
    """A policy that takes longer than the run allows fails, and would not by default."""

    def slow(session: evopolicygym.Session) -> None:
        burning = "import time; end = time.process_time() + 0.3\n        while time.process_time() < end: pass"
        session.submit(GOOD.replace("return int", f"{burning}\n        return int"), [0])

    run = evopolicygym.run("cartpole", slow, policy_limits={"act_s": 0.1}, runs=tmp_path, **{**SMALL, "budget": 1})
    (submission,) = read_run(run.path).state.submissions

    assert submission.failed == 1


@pytest.mark.nightly
def test_programs_read_no_text_and_are_not_pooled_all_the_same(tmp_path: Path) -> None:
    """With both texts the tuner submits the same and scores the same; the records are of two tasks."""
    small = {**SMALL, "budget": 10}
    full, terse = (
        evopolicygym.run("acrobot", "tuner", text=text, runs=tmp_path, experiment=text, **small)
        for text in ("full", "terse")
    )
    states = [read_run(run.path).state for run in (full, terse)]
    results = [load_result(run.path) for run in (full, terse)]

    assert [one.charged.checkpoint for one in states[0].submissions] == [
        one.charged.checkpoint for one in states[1].submissions
    ]
    assert [one.returns for one in states[0].submissions] == [one.returns for one in states[1].submissions]
    assert full.score == terse.score
    assert [state.opened.task.text.value for state in states] == ["full", "terse"]
    assert [one.title for one in comparable(results, ())] == ["text full", "text terse"]
    assert "θ" in states[0].opened.task.environment.observation[0]
    assert states[1].opened.task.environment.observation[0] == "cosine of the first link's angle"
    assert len(score_table(results, [], TableFilter(by=("text",))).entries) == 3
