"""Terse texts: what is seen, done, rewarded and when it ends, in words; never an equation, a constant or advice."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.core.errors import UsageError
from evopolicygym.core.run import fold
from evopolicygym.core.spaces import to_schema
from evopolicygym.core.task import EnvironmentSpec, Task, TaskText
from evopolicygym.environments.environment import Environment
from evopolicygym.records.task_text import task_text
from evopolicygym.specs import catalog
from evopolicygym.specs.identity import environment_identity
from fakes import opening
from specs import CARTPOLE, each_family, every
from terse_texts import said_too_much


def terse(name: str) -> EnvironmentSpec:
    return catalog.load(name, TaskText.TERSE)


def texts(spec: EnvironmentSpec) -> Iterator[str]:
    yield from (spec.objective, spec.reward, spec.termination, *spec.observation, *spec.action)
    if spec.success:
        yield spec.success.meaning


def task_shown(spec: EnvironmentSpec, schemas: tuple[dict[str, Any], dict[str, Any]], text: TaskText) -> str:
    """Return what `GET /task` answers in a run with such a text."""
    choices = {} if text is TaskText.FULL else {"text": text.value}
    opened = opening(task=Task(spec, choices=choices), observation_schema=schemas[0], action_schema=schemas[1])
    return task_text(fold([opened]))


def written(change: str) -> dict[str, Any]:
    """Return a document of cartpole with a table of terse texts, of which one line is changed."""
    plain = {"objective": "a", "reward": "b", "termination": "c", "observation": ["d"], "action": ["e"]}
    name, _, value = change.partition("=")
    own = {key: value for key, value in asdict(CARTPOLE).items() if key != "name"}
    table = {**plain, name: value} if value else {key: held for key, held in plain.items() if key != name}
    return {**own, "terse": table}


@every
def test_no_number_no_equation_no_advice(name: str) -> None:
    """No text holds a digit but in an image's size, a symbol of an equation, a unit, or a word of advice."""
    for text in texts(terse(name)):
        assert said_too_much(text) == []


@each_family
def test_a_terse_text_is_the_shorter_one(name: str) -> None:
    """All texts together are shorter than the full ones, and so is the task, which holds each of them."""
    full, short = catalog.load(name), terse(name)
    environment = Environment(short)
    schemas = to_schema(environment.observation_space), to_schema(environment.action_space)
    shown = task_shown(short, schemas, TaskText.TERSE)

    assert sum(map(len, texts(short))) < sum(map(len, texts(full)))
    assert len(shown) < len(task_shown(full, schemas, TaskText.FULL))
    assert [text for text in texts(short) if text.strip() not in shown] == []


@every
def test_only_texts_differ(name: str) -> None:
    """A terse environment is the same game, is told from the full one by its hash, and names as much as it may."""
    full, short = catalog.load(name), terse(name)
    own = ("objective", "reward", "termination", "observation", "action", "success")

    assert environment_identity(short) == environment_identity(full)
    assert replace(short, **{field: getattr(full, field) for field in own}) == full
    assert catalog.spec_sha256(short) != catalog.spec_sha256(full)
    assert len(short.action) == len(full.action)


def test_full_texts_have_the_hashes_of_the_shipped_runs() -> None:
    """What a spec's file holds besides the full texts changes no hash: shipped runs stay comparable with new ones."""
    recorded = {run.task: run.task_fingerprint for run in shipped("references").runs}
    here = {task: catalog.spec_sha256(catalog.load(task)) for task in recorded}

    assert len(recorded) > 10
    assert recorded == here


def test_an_environment_without_terse_texts_says_what_to_write(tmp_path: Path) -> None:
    """Asked for a terse text that there is not, the catalogue names the file and the table to add."""
    text = Path(str(catalog._built_in()["cartpole"])).read_text(encoding="utf-8").partition("[terse]")[0]
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")

    assert catalog.load(file) == replace(CARTPOLE, name="mine")
    with pytest.raises(UsageError, match=r"mine\.toml .*\[terse\].*objective, reward"):
        catalog.load(file, TaskText.TERSE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("objektive=x", "'terse.objektive'"),
        ("action", "'terse.action'"),
        ("success=it stands", "'terse.success'"),
    ],
)
def test_a_bad_table_is_refused_by_its_field(change: str, said: str) -> None:
    """A table of terse texts is read as strictly as all else, whichever text is asked for."""
    with pytest.raises(UsageError) as refusal:
        catalog.decode(written(change), "mine", "mine.toml")

    assert said in str(refusal.value)
