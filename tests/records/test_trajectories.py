"""What an episode leaves on disk."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evopolicygym.core.rollout import Failure, FailureReason, Recording
from evopolicygym.core.spaces import Box
from evopolicygym.core.strict_json import dumps
from evopolicygym.records import trajectories
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, escape_output, read_steps, write_episode


def trajectory(observations: Any, infos: list[dict[str, Any]] | None = None, **changed: Any) -> Trajectory:
    """Return two steps with these observations."""
    fields: dict[str, Any] = {
        "observations": observations,
        "actions": np.array([1, 0]),
        "rewards": np.array([0.5, -1.0]),
        "infos": infos or [{}, {}],
        "clipped": frozenset({1}),
        "terminated": True,
        "truncated": False,
    }
    return Trajectory(**{**fields, **changed})


def written(at: Path, what: Trajectory, recording: Recording = Recording.TRAJECTORY, **changed: Any) -> Path:
    files = {"stdout": b"hello\n", "stderr": b"", "failure": None, "reward_components": ("gain",)}
    write_episode(at / "ep_000", EpisodeFiles(what, **{**files, **changed}), recording)
    return at / "ep_000"


def lines(at: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (at / "trajectory.jsonl").read_text().splitlines()]


def test_a_line_a_step(tmp_path: Path) -> None:
    """Every step is one line with all that the protocol names; the last has what it led to."""
    observations = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    found = lines(written(tmp_path, trajectory(observations, [{"gain": np.float64(0.25)}, {"gain": 2, "why": "end"}])))

    rest = {"terminated": False, "truncated": False}
    assert [
        {"t": 0, "obs": [0.0, 1.0], "action": 1, "reward": 0.5, **rest, "info": {"gain": 0.25},
         "reward_components": {"gain": 0.25}},
        {"t": 1, "obs": [2.0, 3.0], "action": 0, "reward": -1.0, "terminated": True, "truncated": False,
         "info": {"gain": 2, "why": "end"}, "reward_components": {"gain": 2}, "action_clipped": True,
         "final_obs": [4.0, 5.0]},
    ] == found  # fmt: skip


def test_large_observations_stand_beside(tmp_path: Path) -> None:
    """Pictures go into an archive that numpy reads, and not into the lines."""
    pictures = np.arange(3 * 10 * 10 * 3, dtype=np.uint8).reshape(3, 10, 10, 3)
    at = written(tmp_path, trajectory({"eye": (pictures, np.array([1, 2, 3]))}))
    archive = np.load(at / "observations.npz")

    assert {"obs", "final_obs"}.isdisjoint(lines(at)[1])
    assert (pictures.tolist(), [1, 2, 3]) == (
        archive["observations.eye.0"].tolist(),
        archive["observations.eye.1"].tolist(),
    )


def test_actions_can_be_kept_alone(tmp_path: Path) -> None:
    """A recording of actions holds actions and rewards as arrays, and no step."""
    at = written(tmp_path, trajectory(np.zeros((3, 1)), actions={"go": np.array([1, 0])}), Recording.ACTIONS)
    archive = np.load(at / "steps.npz")

    assert (archive["actions.go"].tolist(), archive["rewards"].tolist()) == ([1, 0], [0.5, -1.0])
    assert not (at / "trajectory.jsonl").exists()


def test_a_failure_is_written(tmp_path: Path) -> None:
    """How a policy failed is told in a file of its own, made safe to show."""
    failure = Failure(FailureReason.ERROR, "it \x1b[31mbroke", 3, "Traceback …\n")
    at = written(tmp_path, trajectory(np.zeros((3, 1))), Recording.OUTPUT, failure=failure)

    assert (at / "error.txt").read_text() == "error at step 3: it \\x1b[31mbroke\nTraceback …\n"


def test_an_episode_is_complete_or_absent(tmp_path: Path) -> None:
    """What an attempt left that was cut short is replaced, in the middle as well as at the end."""
    (tmp_path / "ep_000.part").mkdir()
    (tmp_path / "ep_000.part" / "torn").touch()
    written(tmp_path, trajectory(np.zeros((3, 1))))
    at = written(tmp_path, trajectory(np.ones((3, 1))))

    assert ([tmp_path / "ep_000"], [1.0]) == (list(tmp_path.iterdir()), lines(at)[0]["obs"])


def test_what_is_not_finite_is_a_text(tmp_path: Path) -> None:
    """NaN and infinities are the strings of the protocol, wherever they stand."""
    values = np.array([[np.nan, 1.0], [-np.inf, 0.0], [np.inf, 0.0]])
    infos = [{"deep": [np.float32(np.nan)], "up": np.inf}, {"array": np.array([-np.inf])}]
    first, last = lines(written(tmp_path, trajectory(values, infos, rewards=np.array([np.inf, -np.inf]))))

    assert (first["obs"], first["reward"], first["info"]) == (["NaN", 1.0], "Inf", {"deep": ["NaN"], "up": "Inf"})
    assert (
        last["obs"],
        last["reward"],
        last["info"],
        last["final_obs"],
    ) == (["-Inf", 0.0], "-Inf", {"array": ["-Inf"]}, ["Inf", 0.0])


def test_infos_of_any_kind(tmp_path: Path) -> None:
    """What a simulator tells beside a step is written as well as JSON can hold it, and never stops an episode."""
    infos = [
        {"flag": np.True_, "array": np.arange(2), "object": Path("there"), 3: "three"},
        {"text": "NaN and \ud800", "set": {2, 1}, "none": None},
    ]
    first, last = lines(written(tmp_path, trajectory(np.zeros((3, 1)), infos)))

    assert first["info"] == {"flag": True, "array": [0, 1], "object": "there", "3": "three"}
    assert last["info"]["set"] == [1, 2]


@settings(deadline=None)
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.bool_]),
        arrays.array_shapes(min_dims=1, max_dims=4, max_side=4),
    )
)
def test_rows_are_what_json_would_write(column: Any) -> None:
    """A column encoded at once is the same as its rows encoded one by one."""
    expected = [json.loads(dumps(row)) for row in column]

    assert expected == [json.loads(text) for text in trajectories._json_rows(column)]


EXACT = arrays.arrays(np.float64, (3, 2), elements=st.floats(width=64, allow_nan=False, allow_infinity=False))


@settings(deadline=None, max_examples=25)
@given(observations=EXACT, actions=EXACT, recording=st.sampled_from([Recording.TRAJECTORY, Recording.ACTIONS]))
def test_numbers_of_64_bits_are_recorded_exactly(
    tmp_path_factory: pytest.TempPathFactory, observations: Any, actions: Any, recording: Recording
) -> None:
    """Observations, actions and rewards of 64 bits are read back bit for bit, whole trajectory or actions alone."""
    space = Box((2,), "float64", -np.inf, np.inf)
    rewards = np.ascontiguousarray(actions[:2, 0])
    what = trajectory(observations, actions=actions[:2], rewards=rewards)
    at = written(tmp_path_factory.mktemp("episode"), what, recording)
    steps = list(read_steps(at, space, space) or ())

    assert np.array([step.action for step in steps], np.float64).tobytes() == actions[:2].tobytes()
    assert np.array([step.reward for step in steps], np.float64).tobytes() == rewards.tobytes()
    if recording is Recording.TRAJECTORY:
        seen = [*(step.observation for step in steps), steps[-1].final_observation]
        assert np.array(seen, np.float64).tobytes() == observations.tobytes()


def test_composite_rows() -> None:
    """Dicts, tuples and texts become one JSON value a step."""
    columns = {"a": np.array([1, 2]), "b": (["x", 'y"'], np.array([[0.5], [1.5]]))}

    assert trajectories._json_rows(columns) == ['{"a":1,"b":["x",[0.5]]}', '{"a":2,"b":["y\\"",[1.5]]}']


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"\x1b[2J\x00\r\n", "\\x1b[2J\\x00\\x0d\n"),
        (b"\xff\xc3\xbc", "\\xffü"),
        ("\u202e\u2028é".encode(), "\\x202e\\x2028é"),
    ],
)
def test_printable(output: bytes, shown: str) -> None:
    """Nothing that a terminal would obey is left in what a process printed; words of any language are."""
    assert shown == escape_output(output)
