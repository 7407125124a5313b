"""Whole runs, from opening to score, with everything real but the agent's wits."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.core.errors import EvoPolicyGymError, UnknownName, UsageError
from evopolicygym.core.event import (
    AgentEnded,
    CheckpointSelected,
    CloseReason,
    EpisodePlayed,
    RunClosed,
    RunFinished,
    RunStatus,
)
from evopolicygym.core.run import RunState, fold
from evopolicygym.core.score import estimate
from evopolicygym.core.strict_json import dumps
from evopolicygym.records import experiment, verify
from evopolicygym.records.run_document import run_document
from evopolicygym.runs import turns
from evopolicygym.runs.replay import ReplayOptions, replay
from evopolicygym.runs.run import play, resume
from played_runs import PlayedRun
from players import BAD, GOOD, LEAVE
from whole_runs import (
    BUDGET,
    HELD_OUT,
    VALIDATION,
    Told,
    all_seeds,
    config,
    events,
    numbers,
    played,
    printed,
    state_kept_in,
)


@pytest.fixture
def run(played_run: PlayedRun) -> PlayedRun:
    """Return a run of five submissions: bad, good, good again, its equal, broken."""
    return played_run


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Told, Path]]:
    """Yield a run whose every policy is broken, and the state of its user."""
    place = tmp_path_factory.mktemp("broken")
    with state_kept_in(place / "state"):
        yield played(config(place / "runs", "players:make_breaker", budget=2)), place / "state"


def state_of(run: PlayedRun) -> RunState:
    return fold(events(run.paths))


def hidden(run: PlayedRun | Told, split: Split) -> list[tuple[str, int]]:
    return [
        (event.checkpoint, event.position)
        for event in events(run.paths)
        if isinstance(event, EpisodePlayed) and event.split is split
    ]


def test_a_run_has_a_score(run: PlayedRun) -> None:
    """The score is the mean held-out return of the checkpoint with the best validation mean."""
    outcome = run.state.finished
    returns = run.state.rollout(Split.HELD_OUT, run.state.submissions[3].charged.checkpoint).returns

    assert outcome is not None
    assert (RunStatus.SCORED, estimate(returns).mean) == (outcome.status, outcome.score)
    assert len(returns) == HELD_OUT


@pytest.mark.parametrize("level", ["process", "none"])
def test_weaker_sandbox_backends(run: PlayedRun, run_at: Callable[[str], PlayedRun], level: str) -> None:
    """A run in a weaker sandbox backend says so in its record, and ends as in the strongest."""
    weaker = run_at(level)

    assert weaker.state.opened.isolation.split()[0] == level
    assert [one.status for one in weaker.state.submissions] == [one.status for one in run.state.submissions]
    assert weaker.state.selected is not None
    assert weaker.state.selected.submit_index == 3
    assert [one.name for one in verify.findings(weaker.paths.root) if not one.ok] == []


def test_a_run_is_its_journal(run: PlayedRun) -> None:
    """What is on disk folds to what the run ended with."""
    assert run.state == state_of(run)


def test_the_stages_follow_each_other(run: PlayedRun) -> None:
    """The agent ends, the run closes, validation is played, one is selected, held-out is played, the run finishes."""
    order = [type(event) for event, _ in run.seen]
    places = [order.index(kind) for kind in (AgentEnded, RunClosed, CheckpointSelected, RunFinished)]
    splits = [event.split for event, _ in run.seen if isinstance(event, EpisodePlayed)]

    assert sorted(places) == places
    assert splits == [Split.TRAIN] * 8 + [Split.VALIDATION] * 3 * VALIDATION + [Split.HELD_OUT] * HELD_OUT


def test_hidden_results_come_after_the_agent(run: PlayedRun) -> None:
    """Nothing of validation or held-out lies on disk before the agent is gone and the run is closed."""
    closed = next(place for place, (event, _) in enumerate(run.seen) if isinstance(event, RunClosed))

    assert not any(exists for _, exists in run.seen[: closed + 1])
    assert run.paths.evaluation.is_dir()


def test_the_budget_is_spent_exactly(run: PlayedRun) -> None:
    """Every submission's episodes are charged, those of the broken policy too."""
    assert (run.state.spent, run.state.remaining) == (BUDGET, 0)
    assert [one.status.value for one in run.state.submissions] == ["ok", "ok", "ok", "ok", "import_error"]


def test_checkpoints_are_what_was_submitted(run: PlayedRun) -> None:
    """A checkpoint is the policy as it stood at the submission, kept once however often it is submitted."""
    names = [one.charged.checkpoint for one in run.state.submissions]

    assert names[1] == names[2]
    assert {*names} == {path.name for path in run.paths.checkpoints.iterdir()}
    assert [(run.paths.checkpoint(name) / "policy.py").read_text() for name in names[:2]] == [BAD, GOOD]


def test_identical_checkpoints_play_validation_once(run: PlayedRun) -> None:
    """Each candidate plays the same validation cases once, the most promising first; the broken one plays none."""
    names = list(dict.fromkeys(one.charged.checkpoint for one in run.state.submissions[:4]))
    played = hidden(run, Split.VALIDATION)

    assert {(name, position) for name in names for position in range(VALIDATION)} == set(played)
    assert [(one, position) for one in run.state.promising for position in range(VALIDATION)] == played


def test_only_the_selected_plays_held_out(run: PlayedRun) -> None:
    """Held-out is played by the selected checkpoint alone."""
    selected = run.state.selected

    assert selected is not None
    assert [(selected.checkpoint, position) for position in range(HELD_OUT)] == hidden(run, Split.HELD_OUT)


def test_equals_go_to_the_latest(run: PlayedRun) -> None:
    """Of checkpoints that play the same, the one submitted last is selected."""
    assert run.state.selected is not None
    assert run.state.selected.submit_index == 3


def test_hidden_evaluation_looks_like_train(run: PlayedRun) -> None:
    """A policy is told the same in validation and held-out as in its own submission, and indices of the same range."""
    train = printed(run.paths.published_feedback(3))
    evaluated = printed(run.paths.evaluation / "held_out")
    evaluated += printed(run.paths.evaluation / "validation" / run.state.submissions[3].charged.checkpoint[:16])

    assert [train[0]["env_meta"]] * (HELD_OUT + VALIDATION) == [one["env_meta"] for one in evaluated]
    assert [one["episode_index"] for one in evaluated] == [0, 1, 0, 0, 1]


def test_identical_checkpoints_are_told_the_firsts_context(run: PlayedRun) -> None:
    """A checkpoint that was submitted twice plays validation as its first submission."""
    checkpoint = run.state.submissions[1].charged.checkpoint
    told = printed(run.paths.evaluation / "validation" / checkpoint[:16])

    assert [one["env_meta"]["submit_index"] for one in told] == [1, 1]


def test_a_case_plays_the_same_each_time(run: PlayedRun) -> None:
    """The same checkpoint on the same case gives the same trajectory; an equal policy draws the same numbers."""
    first = [run.state.submissions[index].episodes[0] for index in (1, 2, 3)]

    assert len({episode.trajectory_sha256 for episode in first if episode}) == 1
    assert len({printed(run.paths.published_feedback(index))[0]["random"] for index in (1, 2, 3)}) == 1


def test_the_document_is_derived(run: PlayedRun) -> None:
    """run.json is what the journal says, and nothing more."""
    assert json.loads(dumps(run_document(run.paths))) == json.loads(run.paths.document.read_text(encoding="utf-8"))


def test_a_record_has_the_protocols_places(run: PlayedRun) -> None:
    """A run's directory holds what the protocol says."""
    expected = {"journal.jsonl", "run.json", "workspace", "checkpoints", "evaluation", "logs"}
    laid = {"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", "judge", "judge_client", "system", "notes", "feedback"}

    assert expected <= {path.name for path in run.paths.root.iterdir()}
    assert laid <= {path.name for path in run.paths.workspace.iterdir()}
    assert list(run.paths.staging.iterdir()) == []


@pytest.mark.usefixtures("at_home")
def test_no_secret_lies_in_a_run(run: PlayedRun) -> None:
    """Neither the secret nor any seed stands in a file of the runs."""
    owner = experiment.begin(run.runs, "default")
    seeds = all_seeds(owner.cases("cartpole", SplitSource.PRIVATE))
    texts = [(path, path.read_bytes().decode("latin-1")) for path in sorted(run.runs.rglob("*")) if path.is_file()]

    assert [path for path, text in texts if owner.secret.hex() in text] == []
    assert [(path, found) for path, text in texts if (found := numbers(text) & seeds)] == []


def test_the_secret_is_the_owners_alone(run: PlayedRun) -> None:
    """The secret's file can be read by its owner only."""
    files = list(run.state_home.rglob("secret.json"))

    assert [(file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) for file in files] == [(0o600, 0o700)]
    assert run.state.finished


def test_a_finished_run_is_left_as_it_is(run_copy: PlayedRun) -> None:
    """Resuming a finished run plays nothing; a run.json that was lost is derived again."""
    run = run_copy
    before = run.paths.journal.read_bytes()
    document = run.paths.document.read_bytes()
    run.paths.document.unlink()
    state = resume(run.paths.root, None, lambda _paths, _state: None, lambda _event, _state: None)

    assert state == run.state
    assert (before, document) == (run.paths.journal.read_bytes(), run.paths.document.read_bytes())


@pytest.mark.usefixtures("at_home")
def test_the_score_plays_again(run: PlayedRun) -> None:
    """Every held-out case plays the same again, bit for bit."""
    assert [one.same for one in replay(run.paths.root, ReplayOptions(2))] == [True] * HELD_OUT


@pytest.mark.usefixtures("at_home")
def test_everything_is_found_in_order(run: PlayedRun) -> None:
    """Verifying an undisturbed run finds nothing wrong, its commitment included."""
    found = list(verify.findings(run.paths.root))

    assert [one for one in found if not one.ok] == []
    assert {"journal", "budget", "run.json", "score", "commitment"} < {one.name for one in found}


def test_elsewhere_the_commitment_waits(run: PlayedRun) -> None:
    """Where the secret is not known, its cases can't be checked, and that is said; playing again is refused."""
    found = {one.name: one for one in verify.findings(run.paths.root)}

    assert "not checked" in found["commitment"].detail
    with pytest.raises(UsageError):
        next(iter(replay(run.paths.root)))


def test_a_revealed_secret_can_be_checked_elsewhere(broken: tuple[Told, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """After reveal, anyone can check the commitment, and no other secret passes."""
    told, state_home = broken
    with monkeypatch.context() as at_home:
        at_home.setenv("XDG_STATE_HOME", str(state_home))
        revealed = experiment.reveal(told.paths.root.parents[3], "default")
    checked = {one.name: one for one in verify.findings(told.paths.root)}
    revealed.write_text(re.sub(r'"secret": "..', '"secret": "00', revealed.read_text()), encoding="utf-8")
    forged = {one.name: one for one in verify.findings(told.paths.root)}

    assert checked["commitment"].ok
    assert "not checked" not in checked["commitment"].detail
    assert not forged["commitment"].ok


def test_no_candidate_no_score(broken: tuple[Told, Path]) -> None:
    """A run whose every policy is broken ends without a score, and says so."""
    told, _ = broken

    assert told.state.finished is not None
    assert (told.state.finished.status, told.state.finished.score) == (RunStatus.NO_OK_SUBMIT, None)
    assert hidden(told, Split.VALIDATION) == []


def test_an_agent_that_leaves_early(tmp_path: Path) -> None:
    """A run whose agent ends with budget left closes on what there is, and says so."""
    told = played(config(tmp_path / "runs", "players:make_idler"))

    assert told.state.closed is not None
    assert told.state.finished is not None
    assert (
        told.state.closed.reason,
        told.state.remaining,
        told.state.finished.status,
    ) == (CloseReason.AGENT_ENDED, 8, RunStatus.SCORED)


def test_an_agent_that_raises(tmp_path: Path) -> None:
    """An agent's exception is recorded, it is asked again as often as it may be, and the run ends without a score."""
    told = played(config(tmp_path / "runs", "players:make_raiser"))
    turns = json.loads(told.paths.document.read_text(encoding="utf-8"))["timing"]["agent_turns"]

    assert [(one["end"], one["message"]) for one in turns] == [("crashed", "RuntimeError: the model is gone")] * 2
    assert told.state.finished is not None
    assert RunStatus.NO_OK_SUBMIT is told.state.finished.status


def test_an_agent_that_does_not_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that stays when the run is over is left behind, and that is recorded."""
    monkeypatch.setattr(turns, "AGENT_LAST_WORDS_S", 0.01)
    monkeypatch.setattr(turns, "AGENT_GRACE_S", 0.01)
    try:
        told = played(config(tmp_path / "runs", "players:make_lingerer", budget=2))
    finally:
        LEAVE.set()
    ends = [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]

    assert [end for end, _ in ends] == ["stopped"]
    assert ends[0][1]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"isolation": "chroot"}, UsageError),
        ({"agent": "nobody"}, UnknownName),
        ({"agent": "players:nobody"}, UsageError),
        ({"split": SplitSource.DIRECTORY}, UsageError),
    ],
)
def test_a_run_that_can_t_be_opened_leaves_nothing(
    tmp_path: Path, changes: dict[str, Any], error: type[EvoPolicyGymError]
) -> None:
    """A run that never began has no directory."""
    with pytest.raises(error):
        play(config(tmp_path / "runs", **changes), lambda _paths, _state: None, lambda _event, _state: None)

    assert list((tmp_path / "runs").rglob("workspace")) == []
