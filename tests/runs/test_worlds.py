"""Runs in worlds: recorded, replayed, compared, normalised; and what an agent reads."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.ranking.comparability import OF_ENTRIES, comparable, differences
from evopolicygym.analysis.ranking.known_scale import KnownScores, known_scale
from evopolicygym.core.cases import PUBLIC_KEY, Split, SplitSource, derive, world_seed
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.event import EpisodePlayed, Event
from evopolicygym.core.run import RunState
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.core.world import decode_world, parse_entries, world_text
from evopolicygym.environments.environment import Environment
from evopolicygym.judge.rollouts import EpisodeJobBuilder
from evopolicygym.records import experiment
from evopolicygym.records.task_text import task_text
from evopolicygym.runs.anchors import AnchorPlayer, build_jobs, starter_policy
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.environment import resolve_world
from evopolicygym.runs.replay import ReplayedCase, ReplayOptions, replay
from evopolicygym.runs.run import play, resume
from evopolicygym.specs import catalog
from evopolicygym.specs.catalog import spec_sha256
from evopolicygym.specs.identity import environment_identity
from made_up import load_result
from whole_runs import Told, config, played, state_kept_in

WORLD = decode_world(
    {
        "noise": {"observation": {"absolute": 0.01}, "action": {"share": 0.05}},
        "delay": {"action": 1},
        "drawn": {"body_mass": [0.5, 2.0], "actuator_gear": [0.5, 2.0]},
    },
    "rough",
    "the test",
)
REACHER = catalog.load("reacher").in_world(WORLD)


def in_world(runs: Path, spec: EnvironmentSpec = REACHER) -> RunConfig:
    """Return a small run of random play."""
    plain = config(runs, "random", 2)
    choices = {"world": spec.world.name} if spec.world else {}
    return replace(plain, task=replace(plain.task, environment=spec, choices=choices))


@dataclass(frozen=True)
class RoughRun:
    """A run in the rough world, its hidden cases played again, and the key of its experiment."""

    run: Told
    again: tuple[ReplayedCase, ...]
    key: bytes


@pytest.fixture(scope="module")
def rough(tmp_path_factory: pytest.TempPathFactory) -> RoughRun:
    """Return a run that was played and played again."""
    place = tmp_path_factory.mktemp("rough")
    with state_kept_in(place / "state"):
        run = played(in_world(place / "runs"))
        again = replay(run.paths.root, ReplayOptions(workers=1), (Split.VALIDATION, Split.HELD_OUT))
        key = experiment.load_experiment(run.state.opened.experiment).key(SplitSource.PRIVATE)
        return RoughRun(run, tuple(again), key)


@pytest.fixture
def run(rough: RoughRun) -> Told:
    """Return the run in the rough world."""
    return rough.run


def test_a_run_keeps_its_world_and_what_it_measures_there(run: Told) -> None:
    """The record holds the world and three anchors of it, measured on the run's own held-out cases and not charged."""
    opened = run.state.opened
    environment = opened.task.environment
    anchors = (environment.random_anchor, environment.idle_anchor, environment.reference_anchor)

    assert (environment.world, opened.task.choices) == (WORLD, {"world": "rough"})
    assert [anchor.episodes for anchor in anchors if anchor] == [opened.task.held_out_cases] * 3
    assert (run.state.spent, run.state.budget) == (2, 2)
    assert environment.random_anchor is not None
    assert environment.random_anchor.mean == pytest.approx(run.state.finished and run.state.finished.score)


def test_a_replay_has_the_same_world(rough: RoughRun) -> None:
    """Every hidden case plays again as it is recorded, bit for bit."""
    assert [case.same for case in rough.again] == [True] * 5


@pytest.mark.nightly
def test_a_run_that_was_stopped_goes_on_in_its_world(tmp_path: Path) -> None:
    """A run that is resumed plays the cases that it would have played: a replay finds all of them the same."""
    roots: list[Path] = []

    def stop(event: Event, _state: RunState) -> None:
        if isinstance(event, EpisodePlayed) and event.split is Split.HELD_OUT:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(in_world(tmp_path), lambda paths, _state: roots.append(paths.root), stop)
    state = resume(roots[0], 1, lambda _paths, _state: None, lambda _event, _state: None)
    again = list(replay(roots[0], ReplayOptions(workers=1), (Split.VALIDATION, Split.HELD_OUT)))

    assert (state.opened.task.environment.world, state.finished is not None) == (WORLD, True)
    assert [case.same for case in again] == [True] * 5


def test_no_file_holds_the_draw(rough: RoughRun) -> None:
    """Neither what seeds the draw nor what was drawn stands in a file of the run, those of its agent included."""
    seed = world_seed(rough.key, "reacher")
    model: Any = Environment(REACHER, seed).simulator.unwrapped
    masses = [repr(mass)[:10] for mass in model.model.body_mass.tolist() if mass]
    texts = "".join(text for _, text in rough.run.texts())

    assert len(masses) > 2
    assert [hidden for hidden in (str(seed), f"{seed:x}", *masses) if hidden in texts] == []


def test_two_experiments_have_different_draws(tmp_path: Path) -> None:
    """A draw is one for an experiment and one for a task: another experiment or task has another."""
    first, second = (experiment.begin(tmp_path, name).key(SplitSource.PRIVATE) for name in ("first", "second"))
    seeds = {world_seed(key, task) for key in (first, second, PUBLIC_KEY) for task in ("reacher", "pusher")}

    assert len(seeds) == 6


def test_it_matters_to_nothing_how_many_play_at_once() -> None:
    """One worker or two play the same trajectories, another key other ones on the same cases."""
    found = []
    for workers, keys in ((1, [PUBLIC_KEY]), (2, [PUBLIC_KEY, bytes(32)])):
        with AnchorPlayer(REACHER, workers) as player:
            for key in keys:
                episodes = player.play(starter_policy(), Split.HELD_OUT, 3, key=key).episodes
                found.append([episode.trajectory_sha256 for episode in episodes])

    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])


def test_the_standard_world_is_as_it_was() -> None:
    """Without a world a spec has the hash that it had before there were any; a world changes it and the game."""
    plain = catalog.load("reacher")

    assert spec_sha256(plain).startswith("7ea62fe053bc")
    assert spec_sha256(REACHER) != spec_sha256(plain)
    assert not environment_identity(REACHER).is_same(environment_identity(plain))
    assert environment_identity(REACHER).is_same(environment_identity(replace(REACHER, random_anchor=None)))


def test_runs_of_two_worlds_are_never_pooled(run: Told) -> None:
    """Tables hold runs of one world, whose name is in the title, and entries can't be split by it."""
    here = load_result(run.paths.root)
    plain = replace(here, choices={}, task_fingerprint="of the standard world")
    groups = comparable([plain, here], ())

    assert [group.runs for group in groups] == [(plain,), (here,)]
    assert [group.title for group in groups] == ["world standard", "world rough"]
    assert list(differences([plain, here], ())) == ["world"]
    assert "world" not in OF_ENTRIES


def test_the_scale_of_a_world_is_its_own(run: Told) -> None:
    """What ships says nothing of a world: its scale goes from what random and idle play do there to the reference."""
    spec = run.state.opened.task.environment
    random, idle, reference = (Anchor(mean, 0.5, 8) for mean in (-40.0, -12.0, -5.0))
    scale = known_scale("reacher", environment_identity(spec), KnownScores(random, idle, reference))

    assert scale is not None
    assert (scale.low, scale.best) == (idle.mean, reference.mean)
    assert "rough" in scale.source
    assert known_scale("reacher", environment_identity(REACHER)) is None


def test_the_text_says_that_and_not_what(run: Told) -> None:
    """An agent reads that there is noise, a delay and a draw, in terse texts without sizes; never what was drawn."""
    text = task_text(run.state)
    terse = world_text(WORLD, with_numbers=False)

    assert "## World" in text
    assert "1 step late" in text
    assert "from 0.5 to 2 of its usual value" in text
    assert "0.5" not in terse
    assert "the mass of each body" in terse


def test_what_is_left_out_is_named_in_the_text() -> None:
    """Numbers of entries that are left out are those of the whole observation."""
    dropped = decode_world({"drop": ["2-3", "goal"]}, "blind", "the test")

    assert "2-3, goal" in world_text(dropped, with_numbers=True)
    assert [parse_entries(entries) for entries in ("7", "2-3", "goal", "a:1-2")] == [
        ("", range(7, 8)), ("", range(2, 4)), ("goal", None), ("a", range(1, 3)),
    ]  # fmt: skip


def test_a_world_of_a_file_or_a_table(tmp_path: Path) -> None:
    """A file's stem is its name; a table may name itself; both are the same world, and end up in the run."""
    file = tmp_path / "rough.toml"
    file.write_text("delay = { action = 1 }\nact_ms = 20\n[drawn]\nbody_mass = [0.5, 2]\n")
    table = {"name": "rough", "delay": {"action": 1}, "act_ms": 20, "drawn": {"body_mass": [0.5, 2]}}
    configs = [resolve_run_config("reacher", None, {"world": world})[0] for world in (str(file), table)]

    assert configs[0].task == configs[1].task
    assert (configs[0].task.choices, configs[0].task.limits.act_s) == ({"world": "rough"}, 0.02)


@pytest.mark.parametrize(
    ("world", "named"),
    [
        ({}, "nothing"),
        ({"fog": 1}, "fog"),
        ({"name": "standard", "act_ms": 1}, "standard"),
        ({"drawn": {"luck": [0, 1]}}, "luck"),
        ({"drawn": {"gravity": [2, 1]}}, "gravity"),
        ({"delay": {"action": -1}}, "delay"),
        ({"noise": {"action": {"share": 2}}}, "share"),
        ({"noise": {"action": {"share": 0.1, "absolute": 1}}}, "either"),
        ({"jitter": {"actions": 10**6}}, "jitter"),
        ({"act_ms": 0}, "act_ms"),
    ],
)
def test_what_is_no_world(world: dict[str, Any], named: str) -> None:
    """A document that is no world is refused with what is wrong."""
    with pytest.raises(UsageError, match=named):
        resolve_world("reacher", world)


def test_what_can_t_be_asked(tmp_path: Path) -> None:
    """A name that a task doesn't have, a file that is none, and two limits of an action are refused."""
    with pytest.raises(UnknownName, match="standard"):
        resolve_world("reacher", "nowhere")
    with pytest.raises(UsageError, match="path"):
        resolve_world("reacher", str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="act_s"):
        resolve_run_config("reacher", None, {"world": {"act_ms": 5}, "policy_limits": {"act_s": 2}})


def test_jobs_carry_the_draw() -> None:
    """What seeds a draw comes from the secret and the task; it is in no context that a policy is given."""
    jobs = build_jobs(EpisodeJobBuilder(derive(PUBLIC_KEY, "reacher"), b"secret", 0), Split.HELD_OUT, 2)

    assert {job.world_seed for job in jobs} == {world_seed(b"secret", "reacher")}
