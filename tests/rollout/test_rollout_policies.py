"""What a policy is promised and what it can't get away with: the protocol's third section, played for real."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.core.rollout import FailureReason, Recording
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import Limits
from evopolicygym.rollout.policy_monitor import CUT_MARK
from playground import ROOMY, Playground, one_worker, policy
from simulators import STEPS, spec

SMALL = replace(ROOMY, memory_mb=1024, output_kb=1)
HASTY = {
    "act": replace(ROOMY, act_s=0.3),
    "reset": replace(ROOMY, reset_s=0.3),
    "episode": replace(ROOMY, episode_s=1.0),
    "load": replace(ROOMY, load_s=0.3),
}
"""Limits of which one is short, for policies that reach it whatever the machine does."""
SPIN = """
import threading
def spin():
    while True: pass
"""
THREADED = "threading.Thread(target=spin).start()"
SPEND = "began = time.process_time()\nwhile time.process_time() - began < 0.4: pass"
"""Takes so much processor time, however long that takes."""
NO_BOX_ACTIONS = (
    "None", "'up'", "b'up'", "[np.nan, 0.0]", "[0.0, -np.inf]", "np.zeros(3)", "0.0", "[True, False]", "[1j, 0]",
    "object()", "np.array([None, 0])", "{'a': 1}", "(x for x in 'ab')", "Hostile()",
)  # fmt: skip
NO_CHOICES = ("None", "'1'", "2", "-2", "10**30", "True", "0.5", "np.nan", "np.inf", "1e30", "np.array([1, 2])", "[0]")
HOSTILE = """
class Hostile:
    def __array__(self, *args, **kwargs):
        raise SystemError("no array")
    def __repr__(self):
        raise SystemError("no repr")
"""


@pytest.fixture(scope="module", params=["bubblewrap", "process"])
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker on the plain simulator."""
    with one_worker(request.param, spec("Plain"), tmp_path_factory.mktemp("yard")) as ground:
        yield ground


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """The same with little memory and output."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path_factory.mktemp("small"), SMALL) as ground:
        yield ground


@pytest.fixture(scope="module")
def hasty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """The same with little time for one thing."""
    with one_worker("bubblewrap", spec("Plain"), tmp_path_factory.mktemp("hasty"), HASTY[request.param]) as ground:
        yield ground


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker on the simulator with three choices."""
    with one_worker("bubblewrap", spec("Chooser"), tmp_path_factory.mktemp("chooser")) as ground:
        yield ground


@pytest.fixture(scope="module")
def composite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker on the simulator with spaces of every kind."""
    with one_worker("bubblewrap", spec("Composite"), tmp_path_factory.mktemp("composite")) as ground:
        yield ground


def test_a_box_arrives_as_an_array(yard: Playground) -> None:
    """Observations arrive as numpy arrays of the space's shape and dtype, never as lists."""
    played = yard.play_one(policy("print(type(obs) is np.ndarray, obs.dtype, obs.shape)\nreturn self.still"))

    assert played.read().splitlines() == ["True float32 (2,)"] * STEPS


def test_composites_arrive_as_what_they_are(composite: Playground) -> None:
    """Dicts, tuples, ints, texts and arrays of every dtype arrive as the space says."""
    act = """
        print(type(obs).__name__, list(obs), type(obs["count"]).__name__, obs["count"], obs["word"])
        print(obs["picture"].dtype, obs["picture"].tolist())
        print(type(obs["pair"]).__name__, [(str(part.dtype), part.tolist()) for part in obs["pair"]])
        return {"go": 1, "aim": [0.5, -0.5]}
    """
    played = composite.play_one(policy(act))

    seen = [
        "dict ['count', 'pair', 'picture', 'word'] int 5 cabü",
        "uint8 [[0, 1, 2], [3, 4, 5]]",
        "tuple [('int8', [1, 0, 1]), ('int64', [3, 4])]",
    ]
    assert (seen * STEPS, float(STEPS)) == (played.read().splitlines(), played.episode.episode_return)


def test_composite_actions_are_recorded(composite: Playground) -> None:
    """A composite action stands in the trajectory as the environment was given it."""
    played = composite.play_one(policy('return {"go": 1, "aim": np.array([0.5, -7.0])}'))
    line = json.loads(played.read("trajectory.jsonl").splitlines()[0])

    assert (line["action"], line["action_clipped"]) == ({"aim": [0.5, -1.0], "go": 1}, True)


def test_every_episode_has_a_fresh_policy(yard: Playground) -> None:
    """A module's globals, a class's attributes and the process itself don't outlive an episode."""
    remember = "seen.append(1); Policy.count = getattr(Policy, 'count', 0) + 1; print(len(seen), Policy.count)"
    played = yard.play(policy(reset=remember, top="seen = []"), 0, 1, 2)

    assert [one.read() for one in played] == ["1 1\n"] * 3


def test_what_a_constructor_is_told(yard: Playground) -> None:
    """The constructor gets plain-dict schemas and the meta data that the protocol names."""
    told = "print(json.dumps([obs_space, action_space, env_meta]))"
    played = yard.play_one(policy(init=told, top="import json"))
    context = yard.context

    expected = [context.obs_space, context.action_space, context.env_meta()]
    assert expected == json.loads(played.read())


def test_episode_indices_stay_within_the_submission(yard: Playground) -> None:
    """In a longer rollout than its submission a policy meets the same indices again."""
    played = yard.play(policy(reset="print(episode_index)"), 0, 0, 0)

    assert [one.read() for one in played] == ["0\n", "1\n", "0\n"]


def test_random_numbers_repeat(yard: Playground) -> None:
    """The global generators are seeded by the case's public number, and by the same one again."""
    text = policy(reset="import random; print(random.random(), np.random.random())")
    again, other = yard.play(text, 5, 6), yard.play(text, 5)[0]
    random.seed(1005)
    np.random.seed(1005)  # noqa: NPY002 - the global generator is what is promised
    expected = f"{random.random()} {np.random.random()}\n"  # noqa: NPY002, S311 - as above

    assert (expected, expected, False) == (again[0].read(), other.read(), again[1].read() == expected)


def test_what_is_out_of_bounds_is_clipped(yard: Playground) -> None:
    """A number outside a Box is clipped, and the step says so."""
    played = yard.play_one(policy("return [0.5, 3]"))
    lines = [json.loads(line) for line in played.read("trajectory.jsonl").splitlines()]

    assert played.episode.actions_clipped == STEPS
    assert [(line["action"], line["action_clipped"]) for line in lines] == [([0.5, 1.0], True)] * STEPS


@pytest.mark.parametrize("action", NO_BOX_ACTIONS)
def test_what_is_no_array_is_a_failure(yard: Playground, action: str) -> None:
    """What can't be read as an action fails the policy, at the step where it came, and never reaches the simulator."""
    text = policy(f"self.n += 1\nreturn self.still if self.n < 3 else {action}", init="self.n = 0", top=HOSTILE)
    failure = yard.play_one(text).episode.failure

    assert (failure and failure.reason, failure and failure.step) == (FailureReason.INVALID_ACTION, 2)


@pytest.mark.parametrize("action", NO_CHOICES)
def test_what_is_no_choice_is_a_failure(chooser: Playground, action: str) -> None:
    """A Discrete action must be an integer of the space, and no truth value."""
    failure = chooser.play_one(policy(f"return {action}")).episode.failure

    assert (failure and failure.reason) == FailureReason.INVALID_ACTION


def test_numpy_integers_are_choices(chooser: Playground) -> None:
    """An integer of numpy's is an integer."""
    episode = chooser.play_one(policy("return np.int32(-1)")).episode

    assert (episode.failure, episode.length) == (None, STEPS)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("raise ValueError('no')", FailureReason.ERROR),
        ("sys.exit(0)", FailureReason.ERROR),
        ("raise KeyboardInterrupt", FailureReason.ERROR),
        ("raise MemoryError", FailureReason.MEMORY),
        ("np.ones(1 << 30)", FailureReason.MEMORY),
        ("os._exit(0)", FailureReason.DIED),
        ("import ctypes; ctypes.string_at(0)", FailureReason.DIED),
        ("os.close(4); time.sleep(600)", FailureReason.DIED),
        ("os.close(3); return self.still", FailureReason.DIED),
        ("os.write(4, b'x' * 4096); time.sleep(600)", FailureReason.DIED),
        ("os.write(4, b'\\x04\\0\\0\\0\\x09\\0\\0\\0' + bytes(16) + b'[1, 2, 3]'); os._exit(0)", FailureReason.DIED),
        ("os.write(4, b'\\x04\\0\\0\\0\\xff\\xff\\xff\\xff' + bytes(16)); os._exit(0)", FailureReason.DIED),
    ],
)
def test_how_a_policy_fails_is_told(yard: Playground, act: str, reason: FailureReason) -> None:
    """Each way to fail has its reason, and the episode goes on to its natural end."""
    episode = yard.play_one(policy(act)).episode

    assert (reason, STEPS, True) == (episode.failure and episode.failure.reason, episode.length, episode.truncated)


def test_failing_never_pays(yard: Playground) -> None:
    """However it fails, the same anchor plays the same episode on: the return is that of the case, not of the trick."""
    acts = ("raise ValueError", "return None", "os._exit(1)", "sys.exit()", "return [np.nan, 1]")
    played = [yard.play_one(policy(act), seed=7) for act in acts]
    rewards = [json.loads(line)["reward"] for line in played[0].read("trajectory.jsonl").splitlines()]

    assert {one.episode.episode_return for one in played} == {math.fsum(rewards)}
    assert math.fsum(rewards) < -STEPS


def test_a_failure_is_shown_with_its_traceback(yard: Playground) -> None:
    """What a policy's process says of its failure is written down for the agent."""
    error = yard.play_one(policy("raise ValueError('wrong turn')")).read("error.txt")

    assert "ValueError: wrong turn" in error.splitlines()[0]
    assert 'policy.py", line ' in error
    assert "raise ValueError('wrong turn')" in error


COMPUTED, SLEPT = "processor time", "asleep"


@pytest.mark.parametrize(
    ("hasty", "bodies", "where", "how"),
    [
        ("act", {"act": "time.sleep(600)"}, "in act at step 0", SLEPT),
        ("act", {"act": "while True: pass"}, "in act at step 0", COMPUTED),
        ("act", {"act": "os.close(1); os.close(2); time.sleep(600)"}, "in act at step 0", SLEPT),
        ("act", {"act": "os.write(4, b'xyz'); time.sleep(600)"}, "in act at step 0", SLEPT),
        ("act", {"act": f"{THREADED}; time.sleep(600)", "top": SPIN}, "in act at step 0", COMPUTED),
        ("reset", {"reset": "time.sleep(600)"}, "in reset", SLEPT),
        ("reset", {"reset": "while True: pass"}, "in reset", COMPUTED),
        ("episode", {"act": "while True: pass"}, "over a whole episode", COMPUTED),
        pytest.param("episode", {"act": "time.sleep(600)"}, "over a whole episode", SLEPT, marks=pytest.mark.nightly),
    ],
    indirect=["hasty"],
)
def test_time_runs_out(hasty: Playground, bodies: dict[str, str], where: str, how: str) -> None:
    """A policy that takes too long is killed from outside, whatever it does, and told which limit it reached."""
    failure = hasty.play_one(policy(**bodies)).episode.failure

    assert failure
    assert (failure.reason, where in failure.message, how in failure.message) == (FailureReason.TIMEOUT, True, True)


@pytest.mark.nightly
@pytest.mark.parametrize("act", [f"{SPEND}\nreturn self.still", "time.sleep(1.2); return self.still"])
def test_the_time_of_an_episode_runs_out(act: str, tmp_path: Path) -> None:
    """Acts that are each in time are ended at the one that takes the last of the episode's time."""
    limits = Limits(load_s=20.0, reset_s=0.5, act_s=0.5, episode_s=1.0)
    with one_worker("bubblewrap", spec("Plain"), tmp_path, limits) as ground:
        failure = ground.play_one(policy(act)).episode.failure

    assert failure
    assert (failure.reason, failure.step) == (FailureReason.TIMEOUT, 2)


def test_a_worker_never_waits_for_room_to_ask(tmp_path: Path) -> None:
    """A policy that answers ahead and reads no question is out of time once the questions fill their pipe."""
    ahead = """
        import struct
        for step in range(1, 6000):
            os.write(4, struct.pack('<IIdd', 3, step, 0.0, 0.0))
        time.sleep(600)
    """
    with one_worker("bubblewrap", spec("Plain", 6000), tmp_path, HASTY["act"]) as ground:
        failure = ground.play_one(policy(ahead)).episode.failure

    assert (failure and failure.reason) == FailureReason.TIMEOUT


def test_memory_runs_out(small: Playground) -> None:
    """A policy's memory is bounded by its own limit."""
    failure = small.play_one(policy("return bytes(1 << 30)")).episode.failure

    assert (failure and failure.reason) == FailureReason.MEMORY


def test_printing_is_cut(small: Playground) -> None:
    """A flood of output is kept up to the limit, and the place says that it was cut."""
    played = small.play_one(policy("print('x' * 100_000); print('y' * 5000, file=sys.stderr)\nreturn self.still"))

    assert ("x" * 1024 + CUT_MARK.decode(), "y" * 1024 + CUT_MARK.decode()) == (
        played.read(),
        played.read("stderr.txt"),
    )


def test_printing_is_made_safe(yard: Playground) -> None:
    """Escapes for terminals, NULs and bytes that are no text are shown, not obeyed."""
    act = "os.write(1, b'a\\x1b[31m\\x00\\xff\\n'); print('ü\\u202e\\ud800')\nreturn self.still"
    played = yard.play_one(policy(act))

    assert played.read() == "a\\x1b[31m\\x00\\xff\nü\\x202e\\ud800\n" * STEPS


@pytest.mark.parametrize(
    ("text", "status", "named"),
    [
        ("x = 1", SubmissionStatus.MISSING_POLICY, "policy.py"),
        ("Policy = 3", SubmissionStatus.MISSING_POLICY, "policy.py"),
        ("import nowhere", SubmissionStatus.IMPORT_ERROR, "ModuleNotFoundError"),
        ("def broken(:", SubmissionStatus.IMPORT_ERROR, "SyntaxError"),
        ("raise SystemExit(3)", SubmissionStatus.IMPORT_ERROR, "SystemExit: 3"),
        (policy(init="1 / 0"), SubmissionStatus.INIT_ERROR, "ZeroDivisionError: division by zero"),
        ("import os; os._exit(0)", SubmissionStatus.INIT_ERROR, "while loading"),
    ],
)
def test_why_a_policy_can_not_be_loaded(yard: Playground, text: str, status: SubmissionStatus, named: str) -> None:
    """A policy that can't be constructed is told at which stage, and why."""
    error = yard.load(text)

    assert error
    assert (error.status, named in error.message) == (status, True)


@pytest.mark.parametrize("hasty", ["load"], indirect=True)
def test_loading_takes_too_long(hasty: Playground) -> None:
    """Import and construction together have a limit."""
    error = hasty.load("while True: pass")

    assert (error and error.status) == SubmissionStatus.INIT_TIMEOUT


def test_a_good_policy_loads(yard: Playground) -> None:
    """A policy that can be constructed is no error, and is not played."""
    assert yard.load(policy(reset="raise ValueError")) is None


def test_modules_beside_the_policy(yard: Playground) -> None:
    """What lies beside ``policy.py`` can be imported, and read from the working directory."""
    text = policy(reset="print(tables.VALUE, len(open('tables.py').read()))", top="import tables")
    played = yard.play_one(text, tables="VALUE = 3")

    assert played.read() == "3 9\n"


def test_names_of_ours_may_be_taken(yard: Playground) -> None:
    """A module of the policy's that is called like one of ours breaks nothing of ours."""
    broken = "raise RuntimeError('not yours')"
    text = policy("raise ValueError('as usual')")
    played = yard.play_one(
        text, numpy=broken, random=broken, json=broken, traceback=broken, guest=broken, struct=broken
    )

    assert "ValueError: as usual" in played.read("error.txt").splitlines()[0]


def test_scipy_is_at_hand(yard: Playground) -> None:
    """A policy that uses scipy finds it, loaded before it was forked; another finds it not yet loaded."""
    look = "print('sci' + 'py.linalg' in sys.modules)"
    uses = policy(reset="import scipy.linalg\nprint(float(scipy.linalg.norm([3, 4])))", init=look)

    assert (yard.play_one(uses).read(), yard.play_one(policy(init=look)).read()) == ("True\n5.0\n", "False\n")


def test_recordings(yard: Playground) -> None:
    """A recording without steps keeps what was printed, one of actions the arrays too."""
    text = policy(reset="print('hello')")
    names = [
        sorted(path.name for path in yard.play(text, 0, recording=recording)[0].directory.iterdir())
        for recording in Recording
    ]

    output = ["stderr.txt", "stdout.txt"]
    assert [[*output, "trajectory.jsonl"], output, ["stderr.txt", "stdout.txt", "steps.npz"]] == [
        sorted(found) for found in names
    ]


def test_reward_components_are_summed(yard: Playground) -> None:
    """The parts of the reward that the spec declares are summed over the episode."""
    episode = yard.play_one(policy("return [0.5, 0.25]")).episode

    assert (dict(episode.reward_components), episode.episode_return) == ({"effort": -0.75 * STEPS}, -1.75 * STEPS)
