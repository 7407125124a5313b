"""The environments: specs are read and refused, simulators are made and stepped, versions and splits are told."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as theirs

from evopolicygym.core import spaces as ours
from evopolicygym.core.cases import Split
from evopolicygym.core.environment import Anchor, EnvironmentSpec, Kind, Success, SuccessRule
from evopolicygym.core.errors import MissingExtra, UnknownName, UsageError
from evopolicygym.environments import catalog, versions
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import MISSION_LENGTH, from_gymnasium, from_json, mismatch
from evopolicygym.environments.splits import read_directory

CORE16 = {
    *("acrobot", "continuous_car", "bipedal_walker", "car_racing", "reacher", "half_cheetah", "ant", "pusher"),
    *("door_key", "key_corridor", "four_rooms", "obstructed_maze", "parking", "roundabout"),
    *("fetch_push", "fetch_pick_and_place"),
}
MINIGRID = ["door_key", "key_corridor", "four_rooms", "obstructed_maze"]
every = pytest.mark.parametrize("name", catalog.names())
CARTPOLE = catalog.load("cartpole")


class Scripted(gymnasium.Env[Any, Any]):
    """A simulator of ours: terminates at its second step, and raises at its third."""

    observation_space = theirs.Box(0.0, 9.0, (1,), np.float32)
    action_space = theirs.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps > 2:
            raise ZeroDivisionError("a bug of the simulator")
        return np.full(1, self.steps, np.float32), np.float32(action), np.bool_(self.steps == 2), np.bool_(0), {}  # type: ignore[return-value]


def make_scripted(**_: Any) -> Scripted:
    return Scripted()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> EnvironmentSpec:
    wrapper = gymnasium.wrappers.RescaleObservation.wrapper_spec(min_obs=np.float32(0), max_obs=np.float32(1))
    registered = gymnasium.envs.registration.EnvSpec("Scripted-v0", make_scripted, max_episode_steps=1)
    wrapped = gymnasium.envs.registration.EnvSpec("Wrapped-v0", make_scripted, additional_wrappers=(wrapper,))
    monkeypatch.setitem(gymnasium.registry, "Scripted-v0", registered)
    monkeypatch.setitem(gymnasium.registry, "Wrapped-v0", wrapped)
    return replace(CARTPOLE, name="scripted", id="Scripted-v0", max_steps=9)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def random_steps(spec: EnvironmentSpec, steps: int, seed: int = 5) -> list[tuple[Any, Any, Any, float, dict[str, Any]]]:
    """Return ``(before, action, after, reward, info)`` of some random steps."""
    environment, random = Environment(spec), np.random.default_rng(seed)
    before, seen = environment.reset(seed), []
    for _ in range(steps):
        action = ours.sample(environment.action_space, random)
        after, reward, terminated, truncated, info = environment.step(action)
        seen.append((before, action, after, reward, info))
        before = after
        if terminated or truncated:
            break
    environment.close()
    return seen


# ---- the catalog


def test_core16_is_complete() -> None:
    """The extra ``core16`` covers the sixteen environments of the paper, no more and no fewer."""
    found = {name for name in catalog.names() if catalog.load(name).extra == "core16"}

    assert found == CORE16


@every
def test_every_spec_loads_under_its_files_name(name: str) -> None:
    """A spec is named after its file, and says all that an agent has to be told."""
    spec = catalog.load(name)

    assert spec.name == name
    assert all((spec.objective, spec.reward, spec.termination, spec.observation, spec.action))


def test_kinds_are_the_papers() -> None:
    """Five tasks ask for synthesis: car racing and the four of MiniGrid."""
    synthesis = {name for name in catalog.names() if catalog.load(name).kind is Kind.SYNTHESIS}

    assert synthesis == {"car_racing", *MINIGRID}


def test_listing_imports_no_simulator() -> None:
    """Names can be listed and specs read without importing gymnasium."""
    program = (
        "import sys; from evopolicygym.environments import catalog as c; [c.load(n) for n in c.names()];"
        "print('gymnasium' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "False"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    """A misspelt name is refused with the name that was probably meant."""
    with pytest.raises(UnknownName, match="Did you mean 'acrobot'"):
        catalog.load("acrobat")


def test_a_path_is_loaded_and_named_after_its_file(tmp_path: Path) -> None:
    """A TOML file from anywhere is a spec, named after the file."""
    text = Path(str(catalog._built_in()["cartpole"])).read_text(encoding="utf-8")
    spec = catalog.load(write(tmp_path / "mine.toml", text))

    assert spec == replace(CARTPOLE, name="mine")


ENTRY_POINTS = """
[evopolicygym.environments]
lander = elsewhere:LANDER
broken = elsewhere:MISSING
odd = elsewhere:ODD
"""


@pytest.fixture
def _another_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(str(catalog._built_in()["cartpole"])).read_text(encoding="utf-8")
    spec = write(tmp_path / "whatever.toml", text)
    write(tmp_path / "elsewhere.py", f"LANDER = {str(spec)!r}\nODD = 7\n")
    (tmp_path / "elsewhere-1.dist-info").mkdir()
    write(tmp_path / "elsewhere-1.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    write(tmp_path / "elsewhere-1.dist-info" / "entry_points.txt", ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)


@pytest.mark.usefixtures("_another_distribution")
def test_another_distribution_adds_a_name() -> None:
    """An entry point that holds a path is a spec under the entry point's name."""
    assert "lander" in catalog.names()
    assert catalog.load("lander") == replace(CARTPOLE, name="lander")


@pytest.mark.usefixtures("_another_distribution")
@pytest.mark.parametrize(("name", "words"), [("broken", "can't be loaded"), ("odd", "is a int")])
def test_a_bad_entry_point_is_refused(name: str, words: str) -> None:
    """An entry point that leads nowhere, or to no path, is named in the refusal."""
    with pytest.raises(UsageError, match=words):
        catalog.load(name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_step": 5}, "no field 'max_step'. Did you mean 'max_steps'"),
        ({"max_steps": None}, "'max_steps' holds None"),
        ({"max_steps": "500"}, "'max_steps' holds '500': Input should be a valid integer"),
        ({"max_steps": 0}, "at least 1"),
        ({"kind": "tunin"}, "'tuning' or 'synthesis'"),
        ({"name": "x"}, "'name' must go"),
        ({"success": {"rule": "info"}}, "'success.key'"),
        ({"success": {"rule": "terminated", "key": "x"}}, "'success.key'"),
        ({"success": {"rule": "terminated", "keys": "x"}}, "no field 'success.keys'. Did you mean 'key'"),
        ({"random_anchor": {"mean": 1.0}}, "'random_anchor.standard_error' is missing"),
    ],
)
def test_a_bad_spec_is_refused_by_its_field(change: dict[str, Any], words: str) -> None:
    """A spec with an unknown, missing or impossible field is refused, naming file and field."""
    good = {key: value for key, value in asdict(CARTPOLE).items() if key != "name"}
    with pytest.raises(UsageError) as refusal:
        catalog.decode(good | change, "mine", "mine.toml")

    assert "mine.toml: " in str(refusal.value)
    assert words in str(refusal.value)


@pytest.mark.parametrize(("text", "words"), [("max_steps =", "not TOML"), ("id = 1979-05-27", "date"), (None, "read")])
def test_what_is_no_spec_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    """A file that is missing, no TOML or full of dates is refused with the reason."""
    file = tmp_path / "mine.toml"
    if text is not None:
        write(file, text)

    with pytest.raises(UsageError, match=words):
        catalog.load(file)


@pytest.mark.parametrize(
    "change",
    [{"id": "x"}, {"name": "x"}, {"max_steps": 7}, {"arguments": {"a": 1}}, {"reward": "x"}, {"idle_action": 1}],
)
def test_the_hash_tells_specs_apart(change: dict[str, Any]) -> None:
    """Two specs that could score differently have different hashes."""
    assert catalog.spec_sha256(replace(CARTPOLE, **change)) != catalog.spec_sha256(CARTPOLE)


@pytest.mark.parametrize(
    "change", [{"random_anchor": Anchor(1.0, 0.1, 9)}, {"family": "x"}, {"extra": "x"}, {"packages": ("x",)}]
)
def test_the_hash_is_blind_to_what_no_score_depends_on(change: dict[str, Any]) -> None:
    """Measuring an anchor, or sorting a spec elsewhere, leaves its hash."""
    assert catalog.spec_sha256(replace(CARTPOLE, **change)) == catalog.spec_sha256(CARTPOLE)


# ---- spaces


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (theirs.Discrete(3, start=-1), ours.Discrete(3, -1)),
        (theirs.Box(-1.0, 2.0, (2, 1), np.float32), ours.Box((2, 1), "float32", -1.0, 2.0)),
        (
            theirs.Box(np.array([0.0, -np.inf]), np.ones(2), dtype=np.float64),
            ours.Box((2,), "float64", (0.0, -np.inf), 1.0),
        ),
        (theirs.Box(0, 255, (2,), np.uint8), ours.Box((2,), "uint8", 0.0, 255.0)),
        (theirs.MultiDiscrete([2, 3], start=[0, 1]), ours.MultiDiscrete((2, 3), (0, 1))),
        (theirs.MultiBinary([2, 2]), ours.MultiBinary((2, 2))),
        (theirs.MultiBinary(4), ours.MultiBinary((4,))),
        (theirs.Text(12), ours.Text(12)),
        (theirs.Tuple([theirs.Discrete(2), theirs.Text(3)]), ours.Tuple((ours.Discrete(2), ours.Text(3)))),
        (theirs.Dict({"b": theirs.Text(3), "a": theirs.Discrete(2)}), None),
    ],
)
def test_every_space_has_our_form(space: theirs.Space[Any], expected: ours.Space | None) -> None:
    """Each space of gymnasium that a policy can be handed has its form here; a Dict's names come sorted."""
    expected = expected or ours.Dict((("a", ours.Discrete(2)), ("b", ours.Text(3))))

    assert from_gymnasium(space) == expected


@pytest.mark.parametrize(
    "space", [theirs.Sequence(theirs.Discrete(2)), theirs.MultiDiscrete(np.array([[2, 3], [4, 5]]))]
)
def test_a_space_that_no_policy_can_be_handed_is_refused(space: theirs.Space[Any]) -> None:
    """A space without a schema is refused with those that have one."""
    with pytest.raises(UsageError, match="These can: Discrete, Box"):
        from_gymnasium(space)


def test_meanings_attach_only_where_they_fit() -> None:
    """Fields go to a flat Box and labels to a Discrete of as many, and nowhere else."""
    texts = ("one", "two")
    flat, picture = theirs.Box(0.0, 1.0, (2,)), theirs.Box(0.0, 1.0, (2, 1))

    assert from_gymnasium(flat, fields=texts) == ours.Box((2,), "float32", 0.0, 1.0, texts)
    assert from_gymnasium(picture, fields=texts) == ours.Box((2, 1), "float32", 0.0, 1.0)
    assert from_gymnasium(theirs.Discrete(2), labels=texts) == ours.Discrete(2, 0, texts)
    assert from_gymnasium(theirs.Discrete(3), labels=texts) == ours.Discrete(3)


@pytest.mark.parametrize("name", MINIGRID)
def test_missions_are_texts_that_fit(name: str) -> None:
    """A MiniGrid mission's schema is the same for every object, and every mission fits it."""
    one, other = Environment(catalog.load(name)), Environment(catalog.load(name))
    missions = [one.reset(seed)["mission"] for seed in range(20)]
    schema = ours.to_schema(one.observation_space)

    assert schema["spaces"]["mission"] == {"type": "Text", "max_length": MISSION_LENGTH}
    assert schema == ours.to_schema(other.observation_space)
    assert max(map(len, missions)) <= 53


PAIR = ours.Tuple((ours.Discrete(2), ours.Text(3)))
NAMED = ours.Dict((("a", ours.Discrete(2)), ("b", ours.MultiBinary((2,)))))


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (ours.Discrete(2), 1, 1),
        (ours.Box((2,), "float32", 0.0, 1.0), [0, 0.5], np.array([0.0, 0.5])),
        (ours.MultiDiscrete((2, 3), (0, 0)), [1, 2], np.array([1, 2])),
        (PAIR, [1, "x"], (1, "x")),
        (NAMED, {"b": [0, 1], "a": 0}, {"a": 0, "b": np.array([0, 1])}),
    ],
)
def test_json_becomes_a_value_of_the_space(space: ours.Space, value: Any, expected: Any) -> None:
    """An action written as JSON becomes what the rule for actions reads."""
    np.testing.assert_equal(from_json(space, value), expected)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (ours.Discrete(2), True),
        (ours.Discrete(2), 1.0),
        (ours.Box((2,), "float32", 0.0, 1.0), [0.0]),
        (ours.Box((2,), "float32", 0.0, 1.0), ["x", "y"]),
        (ours.Text(3), 7),
        (PAIR, [1]),
        (NAMED, {"a": 1}),
    ],
)
def test_json_of_another_space_is_refused(space: ours.Space, value: Any) -> None:
    """JSON of the wrong type, shape or names is no action."""
    with pytest.raises(ours.InvalidAction):
        from_json(space, value)


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (ours.Discrete(2), np.int64(1), ""),
        (ours.Discrete(2), 2, "outside 0 to 1"),
        (ours.Discrete(2), 1.0, "no integer"),
        (ours.Box((2,), "float32", 0.0, 1.0), np.array([7, 7], np.float32), ""),
        (ours.Box((2,), "float32", 0.0, 1.0), np.zeros(2), "float64"),
        (ours.Box((2,), "float32", 0.0, 1.0), np.zeros(3, np.float32), "(3,)"),
        (ours.Box((2,), "float32", 0.0, 1.0), [0.0, 0.0], "a list stands"),
        (ours.MultiDiscrete((2,), (0,)), np.array([1]), ""),
        (ours.MultiBinary((1,)), np.array([1]), "int64"),
        (ours.Text(3), "four", "at most 3"),
        (PAIR, (0, "four"), "1: 'four'"),
        (NAMED, {"a": 0}, "not the parts"),
    ],
)
def test_a_value_is_held_to_its_space(space: ours.Space, value: Any, words: str) -> None:
    """A value of another type, dtype, shape or name is told apart; an overshot bound is not."""
    found = mismatch(space, value)

    assert words in found
    assert bool(words) == bool(found)


# ---- environments, made real


@every
def test_observations_are_what_the_schema_says(name: str) -> None:
    """After a reset and after a step, the observation has the types, dtypes, shapes and names of its space."""
    environment = Environment(catalog.load(name))
    first = environment.reset(3)
    second = environment.step(environment.idle_action)[0]
    environment.close()

    assert mismatch(environment.observation_space, first) == ""
    assert mismatch(environment.observation_space, second) == ""


@every
def test_each_element_and_value_has_one_meaning(name: str) -> None:
    """A flat vector has as many meanings as elements, a choice as many as values."""
    spec = catalog.load(name)
    environment = Environment(spec)
    environment.reset(3)

    for space, texts in ((environment.observation_space, spec.observation), (environment.action_space, spec.action)):
        due = space.shape[0] if isinstance(space, ours.Box) and len(space.shape) == 1 else getattr(space, "n", None)
        assert due in {len(texts), None}
        assert due is None or (getattr(space, "fields", ()) or getattr(space, "labels", ())) == texts


@every
def test_a_step_answers_with_plain_types(name: str) -> None:
    """Rewards are floats and endings are bools, whatever numpy type the simulator used."""
    environment = Environment(catalog.load(name))
    environment.reset(3)
    _, reward, terminated, truncated, info = environment.step(environment.idle_action)

    assert [type(value) for value in (reward, terminated, truncated, info)] == [float, bool, bool, dict]
    assert all(key in info for key in environment.spec.reward_components)


@every
def test_an_episode_is_truncated_at_max_steps(name: str) -> None:
    """The step that reaches ``max_steps`` is truncated, and none before; a reset counts anew."""
    environment = Environment(replace(catalog.load(name), max_steps=3))
    for seed in (3, 4):
        environment.reset(seed)
        truncated = [environment.step(environment.idle_action)[3] for _ in range(3)]

        assert truncated == [False, False, True]


@every
def test_specs_and_registrations_agree_on_the_number_of_steps(name: str) -> None:
    """A spec's ``max_steps`` is the environment's own limit; the paper's cut of door_key is the one exception."""
    spec = catalog.load(name)
    simulator = Environment(spec)._simulator.unwrapped
    own = gymnasium.spec(spec.id).max_episode_steps or getattr(simulator, "max_steps", None)
    own = own or simulator.config["duration"] * simulator.config["policy_frequency"]  # type: ignore[attr-defined]

    assert spec.max_steps == (1000 if name == "door_key" else own)


def test_door_key_says_that_its_reward_counts_to_2560() -> None:
    """The cut at 1000 steps leaves the environment's own limit in the reward, and the texts say both."""
    spec = catalog.load("door_key")

    assert Environment(spec)._simulator.unwrapped.max_steps == 2560  # type: ignore[attr-defined]
    assert "2560" in spec.reward
    assert "1000" in spec.termination


def test_the_last_step_allowed_is_truncated_even_where_it_terminates(scripted: EnvironmentSpec) -> None:
    """As in gymnasium's TimeLimit, both endings can hold at once."""
    environment = Environment(replace(scripted, max_steps=2))
    environment.reset(0)
    endings = [environment.step(0)[2:4] for _ in range(2)]

    assert endings == [(False, False), (True, True)]
    assert {type(flag) for flags in endings for flag in flags} == {bool}


def test_only_wrappers_that_change_data_are_kept(scripted: EnvironmentSpec) -> None:
    """What merely checks or counts is left out, the registration's own limit included; what rescales stays."""
    bare, wrapped = Environment(scripted), Environment(replace(scripted, id="Wrapped-v0"))

    assert type(bare._simulator) is Scripted
    assert wrapped.reset(0) == 0.0
    assert wrapped.step(0)[0] == pytest.approx(1 / 9)


def test_what_a_simulator_raises_comes_through(scripted: EnvironmentSpec) -> None:
    """A simulator's own error reaches the caller, who names it."""
    environment = Environment(scripted)
    environment.reset(0)
    environment.step(0)
    environment.step(0)

    with pytest.raises(ZeroDivisionError):
        environment.step(0)


@pytest.mark.parametrize("name", ["acrobot", "bipedal_walker", "half_cheetah", "four_rooms", "fetch_push"])
def test_episodes_are_those_of_plain_gymnasium(name: str) -> None:
    """The same seed and actions give the same bits as ``gymnasium.make``."""
    spec = catalog.load(name)
    seen = random_steps(spec, 30)
    plain = gymnasium.make(spec.id, disable_env_checker=True)
    plain.reset(seed=5)

    for _, action, after, reward, _ in seen:
        observation, their_reward, *_ = plain.step(action)
        np.testing.assert_equal(after, observation)
        assert reward == their_reward
    plain.close()


@pytest.mark.parametrize("name", MINIGRID)
def test_the_idle_action_of_minigrid_does_nothing(name: str) -> None:
    """The idle action of a grid world leaves what is seen as it was."""
    environment = Environment(catalog.load(name))
    first = environment.reset(3)

    np.testing.assert_equal(environment.step(environment.idle_action)[0], first)


@pytest.mark.parametrize(
    ("success", "last", "expected"),
    [
        (None, (1.0, True, {}), None),
        (Success(SuccessRule.TERMINATED), (0.0, True, {}), True),
        (Success(SuccessRule.TERMINATED), (9.0, False, {}), False),
        (Success(SuccessRule.POSITIVE_RETURN), (0.1, False, {}), True),
        (Success(SuccessRule.POSITIVE_RETURN), (0.0, True, {}), False),
        (Success(SuccessRule.INFO, "won"), (0.0, True, {"won": np.float32(1)}), True),
        (Success(SuccessRule.INFO, "won"), (9.0, True, {"won": np.False_}), False),
        (Success(SuccessRule.INFO, "won"), (9.0, True, {}), False),
    ],
)
def test_success_is_told_by_its_rule(success: Success | None, last: tuple[Any, ...], expected: object) -> None:
    """Each rule of success reads what it names, and nothing else; without a rule nothing is told."""
    environment = Environment(replace(CARTPOLE, success=success))

    assert environment.success(*last) is expected


@pytest.mark.parametrize(
    ("name", "module"), [("four_rooms", "minigrid"), ("ant", "mujoco"), ("bipedal_walker", "Box2D")]
)
def test_a_missing_simulator_names_the_extra(name: str, module: str) -> None:
    """Where the simulator isn't installed, the error says what is missing and which extra brings it."""
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from evopolicygym.environments import catalog, environment\n"
        "from evopolicygym.core.errors import MissingExtra\n"
        f"try: environment.Environment(catalog.load({name!r}))\n"
        "except MissingExtra as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert f"needs {module}, which is not installed" in printed
    assert "evopolicygym[core16]" in printed


def test_a_simulator_of_no_extra_is_still_named() -> None:
    """An outsider's spec without an extra says which module is missing."""
    with pytest.raises(UsageError, match="needs no_such_simulator"):
        Environment(replace(CARTPOLE, imports=("no_such_simulator",)))


def test_an_unknown_id_is_refused() -> None:
    """An id that nothing registered is refused with the place where modules are named."""
    with pytest.raises(UsageError, match="'imports', which holds"):
        Environment(replace(CARTPOLE, id="NoSuchThing-v0"))


@pytest.mark.parametrize("name", ["fetch_push", "car_racing", "roundabout"])
def test_simulators_come_without_a_word(name: str) -> None:
    """Making an environment warns of nothing and prints nothing, not even what its packages like to say."""
    program = f"from evopolicygym.environments import catalog as c, environment as e; e.Environment(c.load({name!r}))"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYGAME", "SDL"))}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, env=clean
    )

    assert (ended.stdout, ended.stderr) == ("", "")


@pytest.mark.parametrize(("before", "after"), [(None, "dummy"), ("x11", "x11")])
def test_drawing_needs_no_screen(monkeypatch: pytest.MonkeyPatch, before: str | None, after: str) -> None:
    """Pygame is told to draw without a screen, unless the user told it otherwise."""
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    if before is not None:
        monkeypatch.setenv("SDL_VIDEODRIVER", before)
    Environment(CARTPOLE)

    assert os.environ["SDL_VIDEODRIVER"] == after


def test_a_bad_state_of_mujoco_is_logged_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """MuJoCo's warning goes to the log, not to a file where the run was started."""
    monkeypatch.chdir(tmp_path)
    environment = Environment(catalog.load("half_cheetah"))
    environment.reset(0)
    environment._simulator.unwrapped.data.qvel[:] = 1e12  # type: ignore[attr-defined]
    environment.step(environment.idle_action)

    assert "unstable" in caplog.text
    assert list(tmp_path.iterdir()) == []


# ---- what the texts say


def reacher(_: Any, action: Any, after: Any) -> float:
    return -math.hypot(*after[8:10]) - float((action**2).sum())


def pusher(_: Any, action: Any, after: Any) -> float:
    tip, cylinder, goal = after[14:17], after[17:20], after[20:23]
    near = 0.5 * float(np.linalg.norm(tip - cylinder))
    return -float(np.linalg.norm(cylinder - goal)) - near - 0.1 * float((action**2).sum())


def parking(_: Any, __: Any, after: Any) -> float:
    apart = np.abs(after["achieved_goal"] - after["desired_goal"])
    return -math.sqrt(apart[0] + 0.3 * apart[1] + 0.02 * apart[4] + 0.02 * apart[5])


def fetch(_: Any, __: Any, after: Any) -> float:
    return -float(np.linalg.norm(after["achieved_goal"] - after["desired_goal"]) > 0.05)


def pendulum(before: Any, action: Any, _: Any) -> float:
    angle = math.atan2(before[1], before[0])
    return -(angle**2 + 0.1 * float(before[2]) ** 2 + 0.001 * float(action[0]) ** 2)


def bipedal_walker(before: Any, action: Any, after: Any) -> float:
    effort = 0.028 * float(np.abs(action).sum())
    return 130 / 30 * float(after[2]) / 0.12 / 50 - 5 * float(abs(after[0]) - abs(before[0])) - effort


@pytest.mark.parametrize(
    ("name", "formula", "tolerance"),
    [
        ("reacher", reacher, 1e-6),
        ("pusher", pusher, 1e-6),
        ("parking", parking, 1e-9),
        ("fetch_push", fetch, 0.0),
        ("pendulum", pendulum, 1e-5),
        ("bipedal_walker", bipedal_walker, 0.02),
        ("continuous_car", lambda _, action, __: -0.1 * float(action[0]) ** 2, 1e-9),
        ("acrobot", lambda *_: -1.0, 0.0),
        ("cartpole", lambda *_: 1.0, 0.0),
    ],
)
def test_the_reward_is_what_its_text_says(name: str, formula: Callable[..., float], tolerance: float) -> None:
    """The formula told to an agent gives the reward, from what the agent itself sees."""
    steps = random_steps(catalog.load(name), 8)

    assert [reward for *_, reward, _ in steps] == pytest.approx([formula(*step[:3]) for step in steps], abs=tolerance)


@pytest.mark.parametrize("name", ["reacher", "half_cheetah", "ant", "pusher"])
def test_reward_components_add_up(name: str) -> None:
    """The parts of the reward that a spec declares are all of it."""
    spec = catalog.load(name)

    for *_, reward, info in random_steps(spec, 40):
        assert reward == pytest.approx(sum(float(info[key]) for key in spec.reward_components), abs=1e-6)


def test_the_cost_of_contact_is_in_what_the_ant_sees() -> None:
    """The ant's contact cost is 0.0005 times the sum of the squares of elements 27 to 104."""
    environment = Environment(catalog.load("ant"))
    environment.reset(0)
    steps = [environment.step(environment.idle_action) for _ in range(60)]
    told = [-0.0005 * float((observation[27:] ** 2).sum()) for observation, *_ in steps]

    assert told == pytest.approx([float(info["reward_contact"]) for *_, info in steps])
    assert min(told) < 0


def test_roundabouts_reward_is_what_its_text_says() -> None:
    """Full target speed gives 1, and a lane change costs 0.05/1.2 of it."""
    environment = Environment(catalog.load("roundabout"))
    environment.reset(3)
    faster, left = environment.step(3), environment.step(0)

    assert faster[1] == pytest.approx(1.0)
    assert left[1] == pytest.approx((1.2 - 0.05 - left[4]["crashed"]) / 1.2)


@pytest.mark.parametrize("name", MINIGRID)
def test_the_codes_of_minigrids_image_are_the_simulators(name: str) -> None:
    """The objects, colours and states told to an agent are those of the installed MiniGrid."""
    from minigrid.core import constants

    _, _, objects, colours, states, *_ = catalog.load(name).observation

    assert all(f"{code} {word}" in objects for word, code in constants.OBJECT_TO_IDX.items())
    assert all(f"{code} {word}" in colours for word, code in constants.COLOR_TO_IDX.items())
    assert all(f"{code} {word}" in states for word, code in constants.STATE_TO_IDX.items())


def test_the_places_in_minigrids_image_are_as_told() -> None:
    """The cell ahead is ``image[3, 5]``, the one to the left ``image[2, 6]``, the one to the right ``image[4, 6]``."""
    environment = Environment(catalog.load("four_rooms"))
    for seed in range(20):
        image = environment.reset(seed)["image"]
        world: Any = environment._simulator.unwrapped
        around = ((3, 5, world.dir_vec), (4, 6, world.right_vec), (2, 6, -world.right_vec))
        for i, j, offset in around:
            thing = world.grid.get(*(np.asarray(world.agent_pos) + offset))
            assert tuple(image[i, j]) == (thing.encode() if thing else (1, 0, 0))


# ---- versions


@every
def test_versions_name_what_the_numbers_depend_on(name: str) -> None:
    """Python, numpy, gymnasium and every package of the spec are there, at the version installed."""
    spec = catalog.load(name)
    found = versions.versions(spec)
    packages = {"pygame-ce" if name == "pygame" and "pygame-ce" in found else name for name in spec.packages}

    assert found.keys() == {"python", "numpy", "gymnasium"} | packages
    assert all(found[package] == distribution(package).version for package in packages)


def test_the_pygame_that_is_imported_is_the_one_named() -> None:
    """Where pygame and pygame-ce overwrote each other, the version is that of the one in place."""
    pygame = pytest.importorskip("pygame")
    provider = "pygame-ce" if getattr(pygame, "IS_CE", 0) else "pygame"

    assert versions.versions(catalog.load("car_racing"))[provider] == pygame.version.ver


def test_a_package_that_is_not_installed_names_the_extra() -> None:
    """A spec whose package is missing has no versions, and says which extra brings it."""
    with pytest.raises(MissingExtra, match="core16"):
        versions.versions(replace(CARTPOLE, extra="core16", packages=("no-such-distribution",)))
    with pytest.raises(PackageNotFoundError):
        versions._provider("no-such-distribution")


# ---- splits


GOOD = {"train.json": [1, 2, 3], "valid.json": [4], "heldout.json": [5, 6]}


def lay(folder: Path, splits: dict[str, list[int]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, seeds in splits.items():
        write(folder / file, json.dumps({"cases": [{"seed": seed} for seed in seeds]}))
    return folder


@pytest.mark.parametrize("folder", [".", "acrobot"])
def test_splits_are_read_in_both_layouts(tmp_path: Path, folder: str) -> None:
    """Three files side by side, or in a folder of the environment's name, are its cases."""
    lay(tmp_path / folder, GOOD)
    cases = read_directory(tmp_path, "acrobot")

    assert cases.environment == "acrobot"
    assert cases.seeds == {Split.TRAIN: (1, 2, 3), Split.VALIDATION: (4,), Split.HELD_OUT: (5, 6)}


def test_the_environments_own_folder_goes_first(tmp_path: Path) -> None:
    """Files for one environment are not overruled by files for all."""
    lay(tmp_path, GOOD)
    lay(tmp_path / "acrobot", GOOD | {"train.json": [7]})

    assert read_directory(tmp_path, "acrobot").seed(Split.TRAIN, 0) == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("{", "the file: Invalid JSON"),
        ("[]", "the file: "),
        ('{"cases": []}', "cases: List should have at least 1"),
        ('{"cases": [{"seed": 7}, {"seed": "8"}]}', "cases.1.seed: Input should be a valid integer"),
        ('{"cases": [{"seed": true}]}', "cases.0.seed"),
        ('{"cases": [{"seed": -1}]}', "cases.0.seed: Input should be greater than or equal to 0"),
        ('{"cases": [{"seed": 7, "options": {}}]}', "cases.0.options: Extra inputs are not permitted"),
    ],
)
def test_a_bad_split_is_refused_by_its_file(tmp_path: Path, text: str | None, words: str) -> None:
    """A file that is missing or holds no cases is named, with what was expected."""
    lay(tmp_path, GOOD)
    (tmp_path / "valid.json").unlink()
    if text is not None:
        write(tmp_path / "valid.json", text)
    with pytest.raises(UsageError) as refusal:
        read_directory(tmp_path, "acrobot")

    assert "valid.json" in str(refusal.value)
    assert words in str(refusal.value)
    assert 'such as {"cases": [{"seed": 7}' in str(refusal.value)


def test_splits_that_share_a_seed_are_refused(tmp_path: Path) -> None:
    """A hidden case that is also a train case is refused."""
    lay(tmp_path, GOOD | {"heldout.json": [5, 2]})

    with pytest.raises(UsageError, match=r"train\.json and heldout\.json share a seed"):
        read_directory(tmp_path, "acrobot")
