"""Every attack, submitted to a real judge: its status, its charge, what the agent may read of it, what it leaves.

After them, what some leave in the feedback beyond that: trajectories, numbers, messages, output.
"""

import json
import math
import re
from collections.abc import Iterator

import pytest

from attacked import AttackedRun, SubmissionOutcome, attacked_run
from evopolicygym.checks.sandbox import LIMITS, Attack, attack, attacks
from evopolicygym.rollout.policy_monitor import CUT_MARK

EACH = [pytest.param(one, id=one.id, marks=[pytest.mark.needs_root] * bool(one.guarantees)) for one in attacks()]
"""All attacks; what the sandbox guarantees is built in another way where root builds it."""
STILL = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
"""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedRun]:
    """A run behind bubblewrap that all attacks of this file are submitted to."""
    with attacked_run("bubblewrap", tmp_path_factory.mktemp("walled")) as run:
        yield run


@pytest.mark.parametrize("hostile", EACH)
def test_attack(walled: AttackedRun, hostile: Attack) -> None:
    """An attack comes to its safe outcome, is charged once, shows and leaves nothing; the next policy plays on."""
    walled.assert_held(hostile)


def submitted(run: AttackedRun, identity: str) -> SubmissionOutcome:
    """Return what came of an attack; submit it where that was not done above."""
    hostile = attack(identity)
    return run.outcomes.get(identity) or run.submit(hostile.source, hostile.episodes)


def steps(came: SubmissionOutcome, local: int = 0) -> list[dict[str, object]]:
    """Return an episode's trajectory."""
    return [json.loads(line) for line in came.text("trajectory.jsonl", local).splitlines()]


def bytes_of(came: SubmissionOutcome) -> int:
    """Return the size of a feedback."""
    return sum(map(len, came.files.values()))


def test_p15_the_trajectory_is_the_environments(walled: AttackedRun) -> None:
    """An observation that a policy overwrote stands in the record as the environment gave it."""
    hostile, still = submitted(walled, "P15"), walled.submit(STILL, 3)
    same = [steps(hostile, local)[:3] == steps(still, local)[:3] for local in range(3)]

    assert same == [True] * 3
    assert hostile.endings == ("invalid_action",) * 3


@pytest.mark.parametrize("identity", ["P20", "P21", "P25"])
def test_odd_actions_leave_only_numbers(walled: AttackedRun, identity: str) -> None:
    """No NaN comes into a record, the anchor plays to the end, and messages are short and name no place of ours."""
    came = submitted(walled, identity)

    assert all(math.isfinite(one.episode_return) and one.length > 1 for one in came.episodes)
    assert [name for name, content in came.files.items() if re.search(rb"\b(NaN|Infinity)\b", content)] == [
        name for name in came.files if name.endswith("error.txt") and b"NaN" in came.files[name]
    ]
    assert all(len(one.failure.message) <= 500 for one in came.episodes if one.failure)
    assert all(len(content) < 20_000 for name, content in came.files.items() if name.endswith("error.txt"))
    assert [name for name, content in came.files.items() if b"evopolicygym/" in content] == []


def test_p17_p18_what_is_forged_is_not_counted(walled: AttackedRun) -> None:
    """A forged reward or an unended message comes into no record, and the judge's feedback stays small."""
    for identity in ("P17", "P18"):
        came = submitted(walled, identity)

        assert max(one.episode_return for one in came.episodes) < 501
        assert bytes_of(came) < 500_000


def test_p26_the_judge_keeps_its_own_clock(walled: AttackedRun) -> None:
    """A policy whose clocks stand still is out of time, and a patched report can't name its own verdict."""
    came = submitted(walled, "P26")

    assert came.endings == ("timeout", "error")
    assert (came.summary["timeouts"], came.summary["errors"]) == ([0], [1])


def test_p37_no_raise_is_free(walled: AttackedRun) -> None:
    """Whatever is raised, the episode is charged, marked, and named in the summary."""
    came = submitted(walled, "P37")

    assert came.endings == ("error",) * 5 + ("died", "error")
    assert (came.charged, came.summary["errors"]) == (7, list(range(7)))


def test_p39_a_crash_is_told(walled: AttackedRun) -> None:
    """A process that crashed without a word is told as such, at its step."""
    came = submitted(walled, "P39")

    assert [one.failure.step for one in came.episodes if one.failure] == [2, 2, 2]


def test_p40_memory_is_the_policys_own(walled: AttackedRun) -> None:
    """A heap that outgrows the limit is out of memory; a mapping is refused."""
    assert submitted(walled, "P40").endings == ("memory", "error", "memory")


def test_p41_the_next_episode_starts_as_ever(walled: AttackedRun) -> None:
    """Processes are refused, threads are not, and an episode right after a bomb is played to its end."""
    assert submitted(walled, "P41").endings == ("error", "ok", "error")


def test_p45_output_is_cut(walled: AttackedRun) -> None:
    """A flood is kept up to the limit with a mark at its end, on both outputs of every episode."""
    came = submitted(walled, "P45")
    kept = [content for name, content in came.files.items() if re.search(r"std(out|err)\.txt$", name)]

    assert len(kept) == 6
    assert all(content.endswith(CUT_MARK) for content in kept)
    assert all(len(content) == LIMITS.output_kb * 1024 + len(CUT_MARK) for content in kept)


def test_p46_output_is_made_safe(walled: AttackedRun) -> None:
    """What is no text is shown escaped, lines that pretend are not in the journal, and all files stay readable."""
    events = len(walled.paths.journal.read_bytes().splitlines())
    hostile = attack("P46")
    came = walled.submit(hostile.source, hostile.episodes)
    journal = [json.loads(line) for line in walled.paths.journal.read_text(encoding="utf-8").splitlines()]
    texts = {name: content.decode("utf-8") for name, content in came.files.items()}

    assert [name for name, text in texts.items() if CONTROL.search(text)] == []
    assert len(journal) - events == 1 + 3 + 1  # a charge, three episodes, a publication
    assert "1000000000.0" not in json.dumps(journal)
    assert all(json.loads(text) for name, text in texts.items() if name.endswith(".json"))
    assert "owned" in came.text("stdout.txt")


def test_p57_words_that_are_no_text_are_spelled_out(walled: AttackedRun) -> None:
    """What a policy's error says is in the journal in one line and in its feedback, as text that is safe to show."""
    came = submitted(walled, "P57")
    (error,) = {one.failure.message for one in came.episodes if one.failure}

    assert came.endings == ("error",) * 3
    assert error.startswith("ValueError: \\ud800, \\udfff")
    assert "\n" not in error
    assert [name for name, content in came.files.items() if CONTROL.search(content.decode("utf-8"))] == []
    assert "\\ud800" in came.text("error.txt")


def test_p53_no_program_is_in_sight(walled: AttackedRun) -> None:
    """Behind bubblewrap there is no program but the interpreter, and nothing runs with more rights."""
    came = submitted(walled, "P53")

    assert came.text("stdout.txt").splitlines() in (["sees /usr/bin/python3"], ["sees /usr/bin/python3"] * 2)


def test_p56_prints_are_feedback(walled: AttackedRun) -> None:
    """What an honest policy prints lies in its feedback."""
    came = submitted(walled, "P56")

    assert [came.text("stdout.txt", local) for local in range(3)] == [f"made\nreset {local}\n" for local in range(3)]
    assert (came.endings, came.summary["errors"], came.summary["timeouts"]) == (("ok",) * 3, [], [])
