"""The tables of runs, as a program gets them: what a record says, and nothing of what it hides."""

import io
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pytest

import evopolicygym
from evopolicygym import load_runs
from evopolicygym.analysis.run_tables import Runs
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import AgentEnded, AgentMetered, AgentStarted, Event
from evopolicygym.records import experiment
from evopolicygym.records.labels import RunLabels, write_labels
from evopolicygym.records.rows import TABLES, columns, markdown
from evopolicygym.viewer.documents.overview import RunIndex
from exported import fields, film, recorded
from fakes import TIME, charged, opening, submitted, trained, whole_run
from places import ROOT, SUPPORT
from viewed import documents
from whole_runs import Told, all_seeds, numbers

pytestmark = pytest.mark.made_up

BLOCKED = """
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"gymnasium", "pyarrow", "minari", "pandas", "starlette", "evopolicygym.runs"}:
            raise ImportError(name)

sys.meta_path.insert(0, Wall())
"""


def test_tables_say_what_the_record_says(cartpole_run: Told) -> None:
    """Every submission, episode and step of a record is in the tables, with its own numbers."""
    loaded, state = load_runs(cartpole_run.paths.root), cartpole_run.state
    (row,) = loaded.runs
    episodes = {(one.split, one.submission, one.checkpoint, one.position): one for one in loaded.episodes}
    steps = list(loaded.steps())
    rewards = {
        key: [s.reward for s in steps if (s.split, s.submission, s.checkpoint, s.position) == key] for key in episodes
    }
    held_out = state.held_out()

    assert held_out
    assert (row.score, row.score_standard_error, row.spent) == (held_out.mean, held_out.standard_error, state.spent)
    assert [one.index for one in state.submissions] == [one.submission for one in loaded.submissions]
    assert {"ok", "import_error"} == {one.status for one in loaded.submissions}
    assert len(loaded.episodes) == sum(len(one.returns) for one in (*state.submissions, *state.hidden))
    assert {key: (one.length, one.episode_return) for key, one in episodes.items()} == {
        key: (len(given), math.fsum(given)) for key, given in rewards.items()
    }


def test_each_standard_error_is_of_its_own_episodes(tmp_path: Path) -> None:
    """A submission's train and validation means have standard errors of their own, over their own episodes."""
    found = load_runs(recorded(tmp_path / "run", whole_run()).root).submissions

    assert [(one.train_mean, one.validation_mean) for one in found] == [(2.5, 1.5), (6.5, 3.5)]
    assert [one.train_standard_error for one in found] == pytest.approx([(5 / 3 / 4) ** 0.5] * 2)
    assert [one.validation_standard_error for one in found] == pytest.approx([0.5] * 2)


def test_an_experiment_is_called_as_it_was_named(cartpole_run: Told, tmp_path: Path) -> None:
    """A table has the name that was given with --experiment, and of a run that was copied elsewhere its identity."""
    shutil.copytree(cartpole_run.paths.root, tmp_path / "copied")
    (here,), (copied,) = load_runs(cartpole_run.paths.root).runs, load_runs(tmp_path / "copied").runs
    identity = cartpole_run.state.opened.experiment

    assert (here.experiment, here.experiment_id) == ("default", identity)
    assert (copied.experiment, copied.experiment_id) == (identity, identity)


def test_labels_are_in_the_table_of_runs(cartpole_run: Told, tmp_path: Path) -> None:
    """A run that somebody labelled has its name, tags and note; one that nobody did has nulls."""
    shutil.copytree(cartpole_run.paths.root, tmp_path / "labelled")
    write_labels(tmp_path / "labelled", RunLabels("first\n", ("a,b", "c"), "seen"))
    (plain,), (labelled,) = load_runs(cartpole_run.paths.root).runs, load_runs(tmp_path / "labelled").runs

    assert (plain.name, plain.tags, plain.note) == (None, None, None)
    assert (labelled.name, labelled.tags, labelled.note) == ("first\\n", ("a,b", "c"), "seen")


def test_hidden_steps_have_no_observation(cartpole_run: Told) -> None:
    """Steps of hidden episodes hold action and reward alone, and those of train episodes what was seen besides."""
    hidden = [step for step in load_runs(cartpole_run.paths.root).steps() if step.split != "train"]
    train = [step for step in load_runs(cartpole_run.paths.root).steps() if step.split == "train"]

    assert hidden
    assert train
    assert {(s.observation is None, s.final_observation is None, s.info, s.action_clipped) for s in hidden} == {
        (True, True, None, None)
    }
    assert all(step.observation is not None and step.observation.shape == (4,) for step in train)
    assert all((step.final_observation is not None) == (step.terminated or step.truncated) for step in train)
    assert all(step.action is not None for step in hidden)


def test_tables_hold_no_seed_of_a_case(cartpole_run: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of any table is the seed of a case."""
    runs = next(place for place in cartpole_run.paths.root.parents if place.name == "runs")
    monkeypatch.setenv("XDG_STATE_HOME", str(runs.parent / "state"))
    seeds = all_seeds(experiment.begin(runs, "default").cases("cartpole", SplitSource.PRIVATE))
    loaded = load_runs(cartpole_run.paths.root)
    rows = [fields(row) for row in (*loaded.runs, *loaded.submissions, *loaded.episodes, *loaded.steps())]
    text = "\n".join(f"{name} {value}" for row in rows for name, value in row.items())

    assert seeds
    assert numbers(text) & seeds == set()


def test_pandas_takes_the_tables(cartpole_run: Told) -> None:
    """A data frame is made of a table as it is, with the names of its columns."""
    loaded = load_runs(cartpole_run.paths.root)
    frame = pd.DataFrame(loaded.submissions)

    assert [one.name for one in columns(TABLES["submissions"])] == list(frame.columns)
    assert frame.train_mean.dropna().tolist() == [s.train_mean for s in loaded.submissions if s.train_mean is not None]
    assert len(pd.DataFrame(loaded.steps())) == sum(episode.length for episode in loaded.episodes)


def test_tables_are_read_without_a_simulator(cartpole_run: Told) -> None:
    """No simulator, server or library of data is imported to read runs."""
    root = str(cartpole_run.paths.root)
    code = f"import evopolicygym; print(len(list(evopolicygym.load_runs({root!r}).steps())))"
    left = subprocess.run(
        [sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, timeout=60, check=True
    )

    assert int(left.stdout) == len(list(load_runs(cartpole_run.paths.root).steps()))


def test_values_that_are_no_numbers_stay_what_they_are(tmp_path: Path) -> None:
    """Returns that are NaN or infinite come out as such, in the means too."""
    paths = recorded(tmp_path, [opening(), *submitted(0, [math.nan, 1.0]), *submitted(1, [math.inf, 1.0])])
    loaded = load_runs(paths.root)

    assert [math.inf, 1.0] == [one.episode_return for one in loaded.episodes if one.submission == 1]
    assert math.isnan(loaded.episodes[0].episode_return)
    assert math.isnan(loaded.submissions[0].train_mean or 0.0)


def test_an_unfinished_run_has_what_it_has(tmp_path: Path) -> None:
    """A run that is still open has its rows, and nulls where nothing is known yet."""
    paths = recorded(tmp_path, [opening(), charged(0, 2), trained(0, 1, 7.0)])
    loaded = load_runs(paths.root)
    (run,), (submission,), (episode,) = loaded.runs, loaded.submissions, loaded.episodes

    assert (run.stage, run.status, run.score, run.finished_at) == ("open", None, None, None)
    assert (submission.status, submission.played, submission.train_mean) == ("interrupted", 1, 7.0)
    assert (episode.position, episode.episode_return) == (1, 7.0)
    assert list(loaded.steps()) == []


def test_usage_is_summed_over_turns(tmp_path: Path) -> None:
    """Tokens of all turns are summed; without a model's door they are null."""
    usage = {"requests": 2, "input": 10, "output": 5, "seconds": 0.5, "cost": 0.25}
    turns = [
        event
        for turn in range(2)
        for event in (AgentStarted(TIME, turn), AgentEnded(TIME, turn, AgentEnd.FINISHED, usage=usage))
    ]
    with_door = load_runs(recorded(tmp_path / "a", [opening(agent=AgentConfig("a", effort="high")), *turns]).root).runs[
        0
    ]
    without = load_runs(recorded(tmp_path / "b", whole_run()).root).runs[0]

    assert (with_door.input_tokens, with_door.output_tokens, with_door.model_seconds) == (20, 10, 1.0)
    assert (with_door.cost_usd, with_door.effort, without.effort) == (0.5, "high", None)
    assert (without.input_tokens, without.cost_usd) == (None, None)


def test_two_runs_of_one_id_are_refused(tmp_path: Path) -> None:
    """A run and its copy can't be told apart in the tables; the same directory named twice is one run."""
    recorded(tmp_path / "a", [opening()])
    recorded(tmp_path / "b", [opening()])

    assert len(load_runs(tmp_path / "a", tmp_path / "b" / ".." / "a").runs) == 1
    with pytest.raises(UsageError, match="same id"):
        load_runs(tmp_path)


def test_steps_that_are_not_those_of_the_journal_are_refused(tmp_path: Path) -> None:
    """A file of steps that lacks one is no episode's, and neither is one that is cut off or no JSON."""
    paths = film(tmp_path, 4, 12)
    trajectory = paths.train_episode(0, 0) / "trajectory.jsonl"
    lines = trajectory.read_text().splitlines(keepends=True)
    for broken in ("".join(lines[:-1]), "".join(lines) + "{", "nonsense\n"):
        trajectory.write_text(broken)
        with pytest.raises(RecordError, match="ep_000"):
            list(load_runs(tmp_path).steps())


def test_pictures_are_read_row_by_row(tmp_path: Path) -> None:
    """Observations that stand in an archive beside the steps are the same, the last one too."""
    paths = film(tmp_path, 5, 40)
    steps = list(load_runs(tmp_path).steps())
    with np.load(paths.train_episode(0, 0) / "observations.npz") as archive:
        pictures = archive["observations"]

    assert [pictures[place].ravel().tolist() for place in range(5)] == [
        step.observation.tolist() for step in steps if step.observation is not None
    ]
    assert {step.observation_shape for step in steps} == {(40, 40, 3)}
    assert [np.asarray(PIL.Image.open(io.BytesIO(step.observation_picture or b""))).tolist() for step in steps] == [
        picture.tolist() for picture in pictures[:5]
    ]
    assert steps[-1].final_observation is not None
    assert steps[-1].final_observation.tolist() == pictures[5].ravel().tolist()


def test_the_package_gives_what_it_promises() -> None:
    """``load_runs`` is there when asked for, and nothing else is made up."""
    assert evopolicygym.load_runs is load_runs
    with pytest.raises(AttributeError, match="load_walks"):
        _ = evopolicygym.load_walks


def conversation() -> list[Event]:
    """Return the events of a run by an agent whose model is metered."""
    first, *second = submitted(0, [1.0, 3.0]), *submitted(1, [2.0])
    usage = {"requests": 1, "input": 10, "output": 5, "cost": 0.25}
    return [
        opening(agent=AgentConfig("neutral", "scripted")),
        AgentStarted(TIME, 0),
        AgentMetered(TIME, 0, 1.0, usage),
        *first,
        AgentMetered(TIME, 0, 2.0, {"requests": 3, "input": 110, "output": 25, "cost": 1.0}),
        *second,
        AgentEnded(TIME, 0, AgentEnd.FINISHED, usage={"requests": 4, "input": 200, "output": 50, "cost": 2.0}),
    ]


def test_what_came_before_an_edit(tmp_path: Path) -> None:
    """Tokens, money, messages and feedback count for the submission that came next, each once."""
    paths = recorded(tmp_path / "run", conversation())
    paths.logs.mkdir()
    paths.transcript.write_bytes((SUPPORT / "transcripts" / "neutral.log").read_bytes())
    paths.published_feedback(0).mkdir(parents=True)
    (paths.published_feedback(0) / "summary.json").write_text('{"mean_return": 2.0}')
    run = evopolicygym.load_run(tmp_path / "run")
    first, second = run.edits
    (place,) = RunIndex([tmp_path / "run"]).directories().values()
    page = documents(tmp_path / "run")(f"run/{place.id}")
    steps = [*run.submissions[0].messages, *run.submissions[1].messages]

    assert [(row.tokens, row.cost_usd) for row in (first, second)] == [(15, 0.25), (120, 0.75)]
    assert [(one["used"]["tokens"], one["used"]["cost_usd"]) for one in page["submission_rows"]] == [
        (15, 0.25),
        (120, 0.75),
    ]
    assert [(row.first_message, row.last_message) for row in (first, second)] == [(1, 3), (4, 6)]
    assert [row.feedback_before for row in (first, second)] == [None, {"0": {"mean_return": 2.0}}]
    assert [submission.feedback for submission in run.submissions] == [{"mean_return": 2.0}, None]
    assert [call.arguments["command"][:16] for step in steps for call in step.calls] == [
        "cat > system/pol", "./judge submit 0", "./judge submit 1"
    ]  # fmt: skip
    assert (first.files, first.diff, first.parent) == (None, None, None)  # no checkpoint was written


@pytest.mark.parametrize("table", TABLES)
def test_the_docs_tell_every_column(table: str) -> None:
    """docs/use/data.md has each table's columns with their types, units and meanings, as the code has them."""
    text = (ROOT / "docs" / "use" / "data.md").read_text(encoding="utf-8")

    assert f"### {table}\n\n{markdown(TABLES[table])}" in text


def test_the_package_shows_what_is_public() -> None:
    """``dir`` names what can be used, before it is loaded; many runs are shown in one short line."""
    assert dir(evopolicygym) == sorted(evopolicygym.__all__)
    assert repr(Runs()) == "<Runs: 0 runs, 0 submissions, 0 episodes>"
