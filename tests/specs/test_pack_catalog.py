"""Packs: every file is read, names are unambiguous, ids are those that simulators register, nonsense is refused."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import astuple
from importlib.util import find_spec

import pytest

from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.pack import Challenge, Difficulty, PackText, TaskAnchors, task_name
from evopolicygym.core.task import Anchor
from evopolicygym.specs import catalog, pack_catalog
from terse_texts import said_too_much

every = pytest.mark.parametrize("name", pack_catalog.names())
SIMULATORS = ("gymnasium", "minigrid", "gymnasium_robotics", "highway_env", "mujoco", "ale_py", "shimmy", "numpy")
BESIDE_US = [pack for pack in map(pack_catalog.load, pack_catalog.names()) if pack.is_beside_us]
GOOD = """
title = "Mine"
family = "mine"
licence = "MIT"

[[tasks]]
ids = ["A/One-v1", "Two-v0"]
kind = "tuning"

[limits]
"Two-v0" = 70
"""
"""A pack of two tasks."""
REGISTERED = """
import contextlib, importlib, io, json, sys
import gymnasium
with contextlib.redirect_stderr(io.StringIO()):
    [importlib.import_module(module) for module in json.loads(sys.argv[1])]
print(json.dumps({name: spec.max_episode_steps for name, spec in gymnasium.registry.items()}))
"""
"""Prints what is registered after some imports: ids and the steps that they are limited to."""


def printed(program: str, *words: str) -> str:
    """Return what a program of Python prints."""
    line = [sys.executable, "-c", program, *words]
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout


@every
def test_every_pack_says_what_it_is(name: str) -> None:
    """A pack has a title, a family and a licence, and tasks that can be installed, or says why there are none."""
    pack = pack_catalog.load(name)

    assert all((pack.name == name, pack.title, pack.family, pack.licence))
    assert not pack.tasks or pack.size_mb or not pack.requirements
    assert pack.tasks or pack.unavailable


@every
def test_what_is_installed_is_pinned(name: str) -> None:
    """Every requirement names one version, because a score depends on it, and what a run records is among them."""
    pack = pack_catalog.load(name)
    pinned = {requirement.partition("==")[0].partition("[")[0].lower() for requirement in pack.requirements}

    assert [requirement for requirement in pack.requirements if "==" not in requirement] == []
    assert {package.lower() for package in pack.packages} - pinned == set()


@every
def test_what_is_unavailable_has_a_reason(name: str) -> None:
    """What can't be had is counted, and its reason is a sentence."""
    missing = pack_catalog.load(name).unavailable

    assert [one for one in missing if one.tasks < 1 or not one.what or not one.reason.endswith(".")] == []


@every
def test_texts_are_terse(name: str) -> None:
    """A pack's own texts hold no number, no equation, no unit and no advice."""
    texts = {task.id: astuple(task.text) for task in pack_catalog.load(name).tasks if task.text != PackText()}
    wrong = {task: [found for one in text for found in said_too_much(one)] for task, text in texts.items()}

    assert {task: found for task, found in wrong.items() if found} == {}


@every
def test_a_text_says_what_is_wanted(name: str) -> None:
    """A pack's own text has at least an objective, the reward and what ends an episode."""
    texts = {task.id: task.text for task in pack_catalog.load(name).tasks if task.text != PackText()}

    assert [task for task, text in texts.items() if not all((text.objective, text.reward, text.termination))] == []


def test_names_are_unambiguous() -> None:
    """No two tasks of all packs have one name, and none is the name of a spec."""
    packs = map(pack_catalog.load, pack_catalog.names())
    found = Counter(task.name for pack in packs for task in pack.tasks)

    assert [name for name, count in found.items() if count > 1] == []
    assert found.keys() & set(catalog.names()) == set()


@pytest.mark.skipif(
    not all(map(find_spec, ("minigrid", "gymnasium_robotics", "highway_env"))), reason="core16 is not installed"
)
def test_what_is_beside_us_is_registered() -> None:
    """Every id of the packs beside us is known to its simulator, and is limited there or in the pack.

    Where it is limited there, only a variant of it has another limit.
    """
    imports = sorted({module for pack in BESIDE_US for module in pack.imports})
    registered = json.loads(printed(REGISTERED, json.dumps(imports)))
    tasks = [task for pack in BESIDE_US for task in pack.tasks]

    assert [task.id for task in tasks if task.id not in registered] == []
    assert [task.id for task in tasks if not (registered[task.id] or task.max_steps)] == []
    assert [
        task.id for task in tasks if registered[task.id] and task.max_steps and task.name == task_name(task.id)
    ] == []


def test_reading_packs_imports_no_simulator() -> None:
    """All packs are read without gymnasium, numpy or any simulator."""
    program = (
        "import sys; from evopolicygym.specs import pack_catalog as p; [p.load(n) for n in p.names()];"
        "print(*[one for one in sys.argv[1:] if one in sys.modules])"
    )

    assert printed(program, *SIMULATORS).split() == []


def test_a_task_is_found_by_its_name_and_by_its_id() -> None:
    """A task is asked for by its name, or by the id that gymnasium knows, with or without a module before it."""
    by_name, by_id = pack_catalog.find("BabyAI-BossLevel-v0"), pack_catalog.find("minigrid:BabyAI-BossLevel-v0")

    assert by_name is not None
    assert by_name == by_id
    assert by_name[0].name == "minigrid"
    assert pack_catalog.find("Nothing-v0") is None


@every
def test_a_pack_knows_its_tasks_by_name_and_by_id(name: str) -> None:
    """By its name each task is found; by an id the first of those that share it; by anything else none."""
    pack = pack_catalog.load(name)
    first = {task.id: task for task in reversed(pack.tasks)} | {task.name: task for task in pack.tasks}

    assert {each: pack.task(each) for each in first} == first
    assert pack.task("Nothing-v0") is None


def test_a_group_is_told_apart_by_its_ids() -> None:
    """Tasks of a group have the group's kind, and each a name for a directory and a limit of its own."""
    tasks = pack_catalog.decode(GOOD, "mine").tasks

    assert [(task.id, task.name, task.max_steps) for task in tasks] == [
        ("A/One-v1", "A-One-v1", None),
        ("Two-v0", "Two-v0", 70),
    ]


def test_a_group_completes_the_texts_of_its_ids() -> None:
    """What the text of an id leaves out is that of its group; a variant's own text is completed by that of its id."""
    text = (
        GOOD.replace('kind = "tuning"', 'kind = "tuning"\ntext = { objective = "Each.", reward = "One." }')
        + '[texts."Two-v0"]\nobjective = "Two."\n'
        + '[[tasks]]\nids = ["Two-v0"]\nkind = "tuning"\nvariant = "ram"\ntext = { reward = "Two." }\n'
    )
    tasks = pack_catalog.decode(text, "mine").tasks

    assert [(task.text.objective, task.text.reward) for task in tasks] == [
        ("Each.", "One."),
        ("Two.", "One."),
        ("Two.", "Two."),
    ]


def test_a_variant_has_a_text_and_an_idle_action_of_its_own() -> None:
    """A variant may see and do other things than its id, whose text is then not that of the variant."""
    text = (
        GOOD
        + '[texts."Two-v0"]\nobjective = "Two."\n'
        + '[[tasks]]\nids = ["Two-v0"]\nkind = "tuning"\nvariant = "ram"\n'
        + '[[tasks]]\nids = ["Two-v0"]\nkind = "tuning"\nvariant = "all"\nidle_action = 18\n'
        + 'text = { objective = "All." }\n'
    )
    tasks = pack_catalog.decode(text, "mine").tasks[1:]

    assert [task.text.objective for task in tasks] == ["Two.", "Two.", "All."]
    assert [task.idle_action for task in tasks] == [None, None, 18]


def test_variants_have_anchors_of_their_own() -> None:
    """Anchors and challenges belong to a task by its name, so that another variant of the same id has none of it."""
    text = (
        GOOD
        + '[anchors."Two-v0"]\nmax_steps = 70\nrandom = { mean = 1.5, standard_error = 0.5, episodes = 8 }\n'
        + '[challenges."Two-v0"]\nkinds = ["memory", "long horizon"]\nwhy = "Because."\n'
        + '[[tasks]]\nids = ["Two-v0"]\nkind = "tuning"\nvariant = "ram"\n'
    )
    _, two, variant = pack_catalog.decode(text, "mine").tasks

    assert two.anchors == TaskAnchors(70, random=Anchor(1.5, 0.5, 8))
    assert two.challenge == Challenge((Difficulty.MEMORY, Difficulty.LONG_HORIZON), "Because.")
    assert (variant.name, variant.anchors, variant.challenge) == ("Two-v0-ram", None, None)


@every
def test_anchors_are_measured_on_cases(name: str) -> None:
    """Anchors of a pack have standard errors over as many held-out cases as there are at the most."""
    tasks = [task for task in pack_catalog.load(name).tasks if task.anchors]
    found = [(task, one) for task in tasks for one in astuple(task.anchors)[1:5] if one]  # type: ignore[arg-type]

    assert [task.name for task, (_, error, episodes, _) in found if error < 0 or not 2 <= episodes <= 256] == []
    assert [task.name for task, (*_, rate) in found if (rate is None) != (task.success is None)] == []


@every
def test_the_best_known_score_has_a_source(name: str) -> None:
    """Whose the best known score is stands in a sentence, and it is above random and idle play."""
    tasks = [task for task in pack_catalog.load(name).tasks if task.headroom]
    known = [(task.headroom.best_known, task.anchors) for task in tasks if task.headroom]

    assert [task.name for task in tasks if task.headroom and not task.headroom.source.endswith(".")] == []
    assert [one for one, anchors in known if anchors and anchors.random and anchors.random.mean >= one] == []
    assert [one for one, anchors in known if anchors and anchors.idle and anchors.idle.mean >= one] == []


@every
def test_why_a_task_is_hard_is_a_sentence(name: str) -> None:
    """What makes a task hard is named, each once, and said in a sentence."""
    said = [task.challenge for task in pack_catalog.load(name).tasks if task.challenge]

    assert [one for one in said if not one.kinds or len(set(one.kinds)) < len(one.kinds)] == []
    assert [one.why for one in said if not one.why.endswith(".") or one.why[:1] != one.why[:1].upper()] == []


def test_a_variant_ends_the_name() -> None:
    """Two tasks of one id are told apart by their variants."""
    assert task_name("ALE/Pong-v5", "ram") == "ALE-Pong-v5-ram"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title =", "TOML"),
        (GOOD.replace('licence = "MIT"', ""), "licence: "),
        (GOOD + "wheels = 4", "wheels"),
        ('no_dependencies = ["a"]\nrequirements = ["b==1"]\n' + GOOD, "no_dependencies names a"),
        ('wheels = "4"\n' + GOOD, "wheels: "),
        (GOOD.replace('"tuning"', '"juggling"'), "kind: "),
        (GOOD.replace('"Two-v0"]', '"A/One-v1"]'), "A-One-v1"),
        (GOOD.replace('"Two-v0" = 70', '"Three-v0" = 70'), "Three-v0"),
        (GOOD + '[texts."Four-v0"]\nreward = "x"', "Four-v0"),
        (GOOD + '[texts."Two-v0"]\nhint = "x"', "hint: "),
        (GOOD + '[anchors."A/One-v1"]\nmax_steps = 5', "A/One-v1"),
        (GOOD + '[anchors."A-One-v1"]\nrandom = { mean = 1.0 }', "max_steps: "),
        (GOOD + '[challenges."Six"]\nkinds = ["memory"]\nwhy = "x"', "Six"),
        (GOOD + '[challenges."Two-v0"]\nkinds = ["luck"]\nwhy = "x"', "challenges.Two-v0.kinds.0: "),
    ],
)
def test_what_is_no_pack_is_refused(text: str, words: str) -> None:
    """A file with an unknown or missing field, a name twice, or a text of nothing says so, and whose file it is."""
    with pytest.raises(UsageError) as refusal:
        pack_catalog.decode(text, "mine")

    assert "'mine'" in str(refusal.value)
    assert words in str(refusal.value)


def test_an_unknown_pack_is_answered_with_the_nearest() -> None:
    """A misspelt pack is refused with the name that was probably meant."""
    with pytest.raises(UnknownName, match="'minigrid'"):
        pack_catalog.load("minigird")
