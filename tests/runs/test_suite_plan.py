"""A suite as it is asked for: which runs come of it, what may be added to it later, and what is refused."""

import io
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import own_pack
from evopolicygym.cli import main as cli
from evopolicygym.cli.verbs.play import suite as suite_verb
from evopolicygym.core.errors import RecordError, UnknownName, UsageError
from evopolicygym.core.pack import Headroom, HeadroomKind, Pack
from evopolicygym.core.task import Anchor, TaskKind
from evopolicygym.runs.suites import document
from evopolicygym.runs.suites import suite as suites
from evopolicygym.runs.suites.cross import expand_cells
from evopolicygym.runs.suites.play import default_jobs, split_cores
from evopolicygym.runs.suites.suite import plan, suite_task
from evopolicygym.specs import catalog, pack_catalog
from shell import Shell
from suites import suite

OF_PACKS = ("control8", "frontier16", "minigrid8", "quick4")
"""Suites of tasks that only packs have."""
OWN_PYTHON = (
    *("craftax", "dm_control", "flatland", "game_2048", "grid2op", "kore", "nle", "procgen", "simglucose", "vizdoom"),
)
"""Packs of frontier16 that have a Python of their own."""
CORE = [name for name in catalog.names() if catalog.load(name).family != "quick"]


@pytest.mark.parametrize("name", suites.suite_names())
def test_every_suite_holds_what_there_is(name: str) -> None:
    """Each suite that comes with the package names environments that there are, each once, and says what it is."""
    loaded = suites.load_suite(name, {})
    found = [suite_task(one).name for one in loaded.environments]

    assert found == list(dict.fromkeys(loaded.environments))
    assert loaded.description
    assert loaded.common["experiment"] == name


@pytest.mark.parametrize("name", [name for name in suites.suite_names() if name not in OF_PACKS])
def test_every_suite_can_be_played(name: str) -> None:
    """Each suite of specs can be planned without a simulator."""
    loaded = suites.load_suite(name, {})

    assert len(plan(loaded)) == len(loaded.environments) * len(expand_cells(loaded.cross)) * loaded.repeats


@pytest.mark.skipif(find_spec("minigrid") is None or find_spec("Box2D") is None, reason="core16 is not installed")
def test_a_suite_of_packs_can_be_played() -> None:
    """A suite of packs that are installed beside us is planned, with the anchors that its packs hold."""
    planned = plan(suites.load_suite("quick4", {}))

    assert [run.environment for run in planned] == list(suites.load_suite("quick4", {}).environments)
    assert [run for run in planned if run.config.task.environment.random_anchor is None] == []


@pytest.mark.parametrize("name", OF_PACKS)
def test_every_task_of_a_pack_says_why_it_is_hard(name: str) -> None:
    """Each task of a suite of packs has a text of its own, a reason why it is hard, and measured anchors."""
    found = [suite_task(one) for one in suites.load_suite(name, {}).environments]
    told = [pack_catalog.find(one.name) for one in found]

    assert [one.name for one in found if not (one.challenge and one.challenge.kinds and one.challenge.why)] == []
    assert [one.name for one in found if not (one.random and one.max_steps)] == []
    assert [one.name for one in found if not one.idle] == []
    assert [pair[1].name for pair in told if pair and not pair[1].text.objective] == []


def test_a_score_is_a_share_of_the_way_to_the_best_known() -> None:
    """0 is the better one of random and idle play, 1 the best known score, and what is better lies above."""
    task = replace(
        suite_task("Humanoid-v5"),
        random=Anchor(-5.0, 0.1, 8),
        idle=Anchor(10.0, 0.1, 8),
        headroom=Headroom(HeadroomKind.OPEN, 30.0, "Ours.", 1.0),
    )

    assert task.zero == 10.0
    assert [task.normalised(score) for score in (0.0, 10.0, 20.0, 50.0)] == [-0.5, 0.0, 0.5, 2.0]
    assert replace(task, headroom=None).normalised(20.0) is None
    assert replace(task, random=None, idle=None).normalised(20.0) is None


def test_the_frontier_is_of_two_kinds() -> None:
    """Each task of it has a best known score above random and idle play; few are reached by a whole budget."""
    found = [suite_task(one) for one in suites.load_suite("frontier16", {}).environments]
    kinds = Counter(one.headroom.kind for one in found if one.headroom)

    assert (len(found), kinds) == (16, {HeadroomKind.CLIMB: 3, HeadroomKind.OPEN: 13})
    assert [one.name for one in found if one.headroom and (one.normalised(one.headroom.best_known) != 1.0)] == []


def test_all_missing_packs_are_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is played where packs are missing: each is named with its command, and tasks that need it."""
    own_pack.known(monkeypatch)
    own_pack.known(monkeypatch, own_pack.FILE.replace("-v0", "-v1"), "farther")
    asked = suite(tmp_path / "runs", "random", environments=["Far-v1", "cartpole", "Far-v0", "Wide-v0"])
    with pytest.raises(UsageError) as refused:
        plan(asked)

    lines = str(refused.value).splitlines()
    assert {line.split("install ")[1].split()[0] for line in lines if "packs install" in line} == {"faraway", "farther"}
    assert any("faraway" in line and "Far-v0" in line and "Wide-v0" in line for line in lines)
    assert any("farther" in line and "Far-v1" in line for line in lines)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("answer", "left"), [("y", ["faraway"]), ("n", [])])
def test_missing_packs_are_offered(
    answer: str, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """At a terminal the packs that a suite lacks are installed, if the person there wants it, before it is played."""
    own_pack.known(monkeypatch)
    installed: list[str] = []

    def install(packs: Iterable[Pack]) -> None:
        installed.extend(pack.name for pack in packs)
        own_pack.lay_python()

    monkeypatch.setattr(suite_verb, "install_packs", install)
    monkeypatch.setattr(suite_verb, "_is_at_a_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    file = tmp_path / "far.toml"
    file.write_text('environments = ["Far-v0"]\n', encoding="utf-8")
    ended = shell("suite", file, "--dry-run", "--runs", tmp_path / "runs")

    assert (installed, ended.code) == (left, 0 if left else 2)


def test_a_dry_run_names_them_too(shell: Shell, tmp_path: Path) -> None:
    """A dry run of a suite whose packs are not installed says so, and exits with 2."""
    left = shell("suite", "frontier16", "--agent", "random", "--dry-run", "--runs", tmp_path / "runs")

    assert left.code == 2
    assert {f"evopolicygym packs install {one}" in left.err for one in OWN_PYTHON} == {True}


def test_suites_of_families_and_kinds() -> None:
    """A suite named for a family or a kind holds all of Core16 that is of it, and core16 all of that."""
    members = {name: set(suites.load_suite(name, {}).environments) for name in suites.suite_names()}
    specs = [catalog.load(name) for name in CORE]
    families = {spec.family for spec in specs}

    assert members["core16"] == set(CORE)
    assert len(CORE) == 16
    assert {name: members[name] for name in families} == {
        family: {spec.name for spec in specs if spec.family == family} for family in families
    }
    assert {kind: members[kind.value] for kind in (TaskKind.TUNING, TaskKind.SYNTHESIS)} == {
        kind: {spec.name for spec in specs if spec.kind is kind} for kind in (TaskKind.TUNING, TaskKind.SYNTHESIS)
    }


def test_what_is_given_for_all_agents(tmp_path: Path) -> None:
    """``--model-url`` and the like are every agent's that says nothing else itself."""
    common = {"model_url": "http://127.0.0.1:1", "model": "a", "limits": {"max_cost": 2.0, "max_turns": 3}}
    agents = [{"name": "neutral"}, {"name": "neutral", "model": "b", "limits": {"max_cost": 1.0}}]
    given = {"agents": agents, "runs": str(tmp_path), "environments": ["cartpole"]}
    first, second = (run.config.agent for run in plan(suites.load_suite("smoke", given, common)))

    assert (first.model, first.allowance.cost, first.allowance.turns) == ("a", 2.0, 3)
    assert (second.model, second.allowance.cost, second.allowance.turns) == ("b", 1.0, 3)
    assert first.options["model_url"] == second.options["model_url"] == "http://127.0.0.1:1"


def test_unknown_suite() -> None:
    """A name that no suite has is refused with those that there are."""
    with pytest.raises(UnknownName, match=r"'smoke'.*budget_ladder, control8, core16"):
        suites.load_suite("smok", {})


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("tuner", {"name": "tuner"}),
        ("codex:gpt-5.5", {"name": "codex", "model": "gpt-5.5"}),
        ("codex:gpt-5.5@high", {"name": "codex", "model": "gpt-5.5", "effort": "high"}),
        ("neutral:maker/model:8b@20250101", {"name": "neutral", "model": "maker/model:8b@20250101"}),
        ("my.module:make", {"name": "my.module:make"}),
        ("my.module:make:m@low", {"name": "my.module:make", "model": "m", "effort": "low"}),
    ],
)
def test_agents_on_the_command_line(text: str, table: dict[str, str]) -> None:
    """An agent is given with its model and effort, one from outside as well."""
    assert suites.parse_entry(text) == table


def test_the_plan(tmp_path: Path) -> None:
    """Each agent plays each environment so often, each time with a seed of its own, all in one experiment."""
    asked = suite(
        tmp_path, "codex:a", "codex:b@high", "tuner", environments=["cartpole", "pendulum"], repeats=3, seed=5
    )
    planned = plan(asked)
    ways = Counter((run.environment, run.entry, run.config.seed) for run in planned)

    assert len(planned) == 18
    assert set(ways.values()) == {1}
    assert {run.entry for run in planned} == {"codex:a", "codex:b@high", "tuner"}
    assert {run.config.seed for run in planned} == {5, 6, 7}
    assert {(run.config.experiment, run.config.runs) for run in planned} == {("smoke", tmp_path)}
    assert [run.repeat for run in planned] == [repeat for repeat in range(3) for _ in range(6)]
    assert plan(asked) == planned


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"environments": []}, "environments"),
        ({"environments": ["cartpole", "cartpole"]}, "'cartpole'"),
        ({"agents": [{"name": "tuner"}] * 2}, "label"),
        ({"repeats": 0}, "repeats"),
        ({"jobs": 0}, "jobs"),
        ({"surprise": 1}, "surprise"),
        ({"agents": [{"nam": "tuner"}]}, "agents.0.nam"),
        ({"agents": [{"name": "tuner", "api_key": "k"}]}, "Keys"),
    ],
)  # fmt: skip
def test_what_no_suite_can_be(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    """What can't be played is refused before anything is, with what would work."""
    with pytest.raises(UsageError) as refused:
        plan(suite(tmp_path, "tuner", **changes))

    assert complaint in str(refused.value)


def test_an_agent_that_takes_no_model_is_refused_at_once(tmp_path: Path) -> None:
    """An agent of ours that can't be made as it is asked for stops a suite before its first run."""
    with pytest.raises(UsageError, match="tuner"):
        suites.validate_agents(plan(suite(tmp_path, "random", "tuner:gpt")))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"isolation": "bubblewrp"}, "'bubblewrap'"),
        ({"isolation": "no_such.module:Backend"}, "'no_such.module:Backend'"),
        ({"executor": "locl"}, "'local'"),
        ({"executor": "no_such.module:make"}, "'no_such.module:make'"),
    ],
)
def test_a_level_or_executor_that_there_is_not(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    """A name that no level or executor answers to stops a suite before its first run."""
    with pytest.raises(UsageError) as refused:
        suites.validate_plan(plan(suite(tmp_path, "tuner", **changes)))

    assert complaint in str(refused.value)


@pytest.mark.parametrize("words", [["--isolation", "foo"], ["--executor", "foo"], ["--experiment", "../foo"]])
def test_a_mistyped_option_leaves_nothing(tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One mistyped option is a sentence and exit code 2: no run is tried, and nothing is written."""
    monkeypatch.setattr(sys, "argv", ["evopolicygym", "suite", "smoke", "--runs", str(tmp_path / "runs"), *words])
    with pytest.raises(SystemExit) as left:
        cli.main()

    assert left.value.code == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a b", ".hidden", "-x", "x" * 101])
def test_an_experiment_that_lies_elsewhere(tmp_path: Path, name: str) -> None:
    """A suite's runs lie below the directory of all runs, whatever its experiment is named."""
    with pytest.raises(UsageError):
        document.check_document(suite(tmp_path, "tuner", experiment=name))


PRICE = {"input": 1.0, "output": 10.0}


@pytest.mark.parametrize(
    ("models", "prices", "warned"),
    [((), None, 0), (("unheard", "unheard"), None, 1), (("unheard", "unknown"), None, 2), (("unheard",), PRICE, 0)],
)
def test_a_model_without_a_price_is_told_before_the_first_run(
    tmp_path: Path,
    models: tuple[str, ...],
    prices: dict[str, float] | None,
    warned: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What would be played without its cost being counted is told once for each model."""
    monkeypatch.setenv("A_KEY", "secret")
    door = {"name": "neutral", "model_url": "http://127.0.0.1:9/v1", "model_key": "A_KEY"}
    asking = [
        door | {"model": model, "label": f"agent {place}"} | ({"price": prices} if prices else {})
        for place, model in enumerate(models)
    ]
    asked = suite(tmp_path, repeats=2, agents=[suites.parse_entry("random"), *asking])

    warnings = suites.validate_agents(plan(asked))

    assert len(warnings) == warned
    assert all(repr(model) in " ".join(warnings) for model in models if not prices)


def test_a_limit_of_cost_without_a_price_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that could not be kept stops a suite before its first run."""
    monkeypatch.setenv("A_KEY", "secret")
    door = {"name": "neutral", "model": "unheard", "model_url": "http://127.0.0.1:9/v1", "model_key": "A_KEY"}
    with pytest.raises(UsageError, match="'unheard'"):
        suites.validate_agents(plan(suite(tmp_path, agents=[door | {"limits": {"max_cost": 5}}])))


def opened(directory: Path) -> None:
    """Lay what tells that a run was opened."""
    (directory / "smoke" / "run").mkdir(parents=True, exist_ok=True)
    (directory / "smoke" / "run" / "journal.jsonl").write_text("an event")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"budget": 7}, "budget: expected 6, as when the suite started, got 7"),
        ({"seed": 1}, "seed: expected 0, as when the suite started, got 1"),
        ({"split": "private"}, 'split: expected "public", as when the suite started, got "private"'),
        ({"isolation": "process"}, 'isolation: expected "auto", as when the suite started, got "process"'),
        (
            {"agents": [{"name": "codex", "label": "a", "options": {"quiet_s": 9}}]},
            "agents.a.options.quiet_s: expected 5, as when the suite started, got 9",
        ),
        (
            {"agents": [{"name": "gemini", "label": "a"}]},
            'agents.a.name: expected "codex", as when the suite started, got "gemini"',
        ),
        (
            {"agents": [{"name": "codex", "label": "a", "options": {"quiet_s": 5}, "limits": {"max_cost": 1.0}}]},
            "agents.a.limits.max_cost: expected null, as when the suite started, got 1.0",
        ),
    ],
)
def test_a_suite_that_has_changed(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    """Who goes on with other settings is told which field differs, both values, and what would work."""
    begun = {"agents": [{"name": "codex", "label": "a", "options": {"quiet_s": 5}}]}
    with document.suite_lock(suite(tmp_path, **begun)):
        opened(tmp_path)
    with pytest.raises(UsageError) as refused, document.suite_lock(suite(tmp_path, **{**begun, **changes})):
        pass

    assert complaint in str(refused.value)
    assert "--experiment NAME" in str(refused.value)


@pytest.mark.parametrize("journal", [None, ""])
def test_a_suite_of_which_nothing_was_played(tmp_path: Path, journal: str | None) -> None:
    """Where no run was opened, a suite may be begun anew with other settings, and is what was asked for last."""
    with document.suite_lock(suite(tmp_path, "tuner", budget=7, isolation="none", environments=["pendulum"])):
        if journal is not None:
            opened(tmp_path)
            (tmp_path / "smoke" / "run" / "journal.jsonl").write_text(journal)
    asked = suite(tmp_path, "random")
    document.check_document(asked)
    with document.suite_lock(asked):
        pass
    kept = document.read_document(tmp_path / "smoke")

    assert kept is not None
    assert document.configuration(asked) == document.configuration(kept)


def test_a_suite_that_has_grown(tmp_path: Path) -> None:
    """Environments, agents and repeats may be added; asking for a part of a suite forgets nothing of it."""
    steps = [
        suite(tmp_path, "tuner"),
        suite(tmp_path, "random", environments=["pendulum"], repeats=2, jobs=3, workers=1),
        suite(tmp_path, "tuner"),
    ]
    for step in steps:
        with document.suite_lock(step):
            opened(tmp_path)
    kept = document.read_document(tmp_path / "smoke")

    assert kept is not None
    assert kept.environments == ("cartpole", "pendulum")
    assert [suites.entry_name(one) for one in kept.agents] == ["tuner", "random"]
    assert kept.repeats == 2


def test_a_suite_of_another_version(tmp_path: Path) -> None:
    """A document that another version wrote, or nobody did, is named and not guessed at."""
    for text, complaint in (('{"schema_version": "9", "suite": {}}', "got 9"), ("{", "suite.json")):
        (tmp_path / "suite.json").write_text(text)
        with pytest.raises(RecordError, match=complaint):
            document.read_document(tmp_path)


@pytest.mark.parametrize("jobs", range(1, 12))
def test_cores_are_shared_out(jobs: int) -> None:
    """Every core has its job where there are not more jobs than cores, no two jobs share one, and none has none."""
    cores = [1, 2, 5, 7, 8]
    parts = split_cores(cores, jobs)
    used = Counter(core for part in parts for core in part)

    assert len(parts) == jobs
    assert all(parts)
    assert set(used) == set(cores)
    assert max(used.values()) - min(used.values()) <= 1
    assert max(used.values()) == max(1, -(-jobs // len(cores)))


def test_jobs_by_default() -> None:
    """By default half as many runs play as there are cores, never none."""
    assert [default_jobs(cores) for cores in (1, 2, 3, 8, 64)] == [1, 1, 1, 4, 32]
