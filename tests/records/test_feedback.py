"""Feedback: exactly what an agent may see of a submission, complete or absent, read-only, and nothing of the rest."""

import json
import math
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core import cases
from evopolicygym.core.event import SubmissionPublished
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.run import fold
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import BudgetRule, FeedbackProfile, Limits
from evopolicygym.judge.feedback import summary
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.records.feedback import feedback_sha256, publish, seal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.task_text import info, task_text
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.runs.workspace import create_workspace
from evopolicygym.specs import catalog
from fakes import (
    PATIENCE_S,
    SECRET,
    TIME,
    TOY,
    OpenRun,
    RunMaker,
    charged,
    open_run,
    opening,
    published,
    task,
    trained,
)  # fmt: skip

FIELDS = {
    *("schema_version", "submit_index", "env", "status", "n_episodes", "first_global_episode", "env_instances"),
    *("remaining_budget", "submit_started_at", "submit_completed_at", "wall_time_seconds", "returns", "mean_return"),
    *("std_return", "min_return", "max_return", "episode_lengths", "mean_episode_length", "errors", "timeouts"),
    *("reward_components_mean", "reward_components_per_episode", "ended", "set", "parent", "hypothesis"),
    *("act_seconds", "act_seconds_limit"),
}
OF_EPISODES = {
    *("returns", "mean_return", "std_return", "min_return", "max_return", "episode_lengths", "mean_episode_length"),
    *("errors", "timeouts", "reward_components_mean", "reward_components_per_episode", "success_rate", "ended"),
    "act_seconds",
}


def submit(run: OpenRun, asked: object = "0-1", policy: str = "1") -> dict[str, Any]:
    """Submit a policy and return its summary as it is published."""
    run.write_policy(policy)
    submission = run.session.accept(SubmitRequest(asked))
    run.session.published(submission.index).result(PATIENCE_S)
    document: dict[str, Any] = json.loads((run.feedback(submission.index) / "summary.json").read_text(encoding="utf-8"))
    return document


def told(values: list[float], **changes: Any) -> dict[str, Any]:
    """Return the summary of a submission with these returns."""
    events = [trained(0, place, value) for place, value in enumerate(values)]
    state = fold([opening(task=task(**changes)), charged(0, len(values)), *events])
    return summary(state, state.submissions[0], SubmissionPublished(TIME, 0, SubmissionStatus.OK, "", 0.5))


def test_a_summary_has_the_protocols_fields(new_run: RunMaker) -> None:
    """summary.json holds what the protocol lists, success where the spec declares it, and nothing else."""
    assert FIELDS | {"success_rate"} == submit(new_run()).keys()


def test_the_values_of_a_summary() -> None:
    """Returns are in the request's order, the deviation is the population's."""
    found = told([1.0, -2.0, 4.0])
    found = {name: found[name] for name in FIELDS - {"schema_version"}}

    assert found == {
        "submit_index": 0,
        "env": "toy",
        "status": "ok",
        "n_episodes": 3,
        "first_global_episode": 0,
        "env_instances": [0, 1, 2],
        "remaining_budget": 5,
        "submit_started_at": TIME,
        "submit_completed_at": TIME,
        "wall_time_seconds": 0.5,
        "returns": [1.0, -2.0, 4.0],
        "mean_return": 1.0,
        "std_return": pytest.approx(math.sqrt(6)),
        "min_return": -2.0,
        "max_return": 4.0,
        "episode_lengths": [3, 3, 3],
        "mean_episode_length": 3.0,
        "errors": [],
        "timeouts": [],
        "ended": ["terminated, success", "terminated", "terminated, success"],
        "act_seconds": [None, None, None],
        "act_seconds_limit": 5.0,
        "set": {},
        "parent": None,
        "hypothesis": "",
        "reward_components_mean": {"gain": 3.0, "cost": 0.0},
        "reward_components_per_episode": [{"gain": 3.0 * value, "cost": 0.0} for value in (1.0, -2.0, 4.0)],
    }


def test_success_is_told_where_it_is_declared() -> None:
    """success_rate is the share of episodes that succeeded, and absent where the spec knows no success."""
    plain = replace(task(), environment=replace(TOY, success=None, reward_components=()))
    state = fold([opening(task=plain), charged(0, 1), trained(0, 0)])
    bare = summary(state, state.submissions[0], SubmissionPublished(TIME, 0, SubmissionStatus.OK, "", 0.5))

    assert told([1.0, -2.0, 4.0])["success_rate"] == 2 / 3
    assert bare.keys() == FIELDS
    assert bare["reward_components_mean"] is None
    assert bare["reward_components_per_episode"] is None


@pytest.mark.parametrize("values", [[math.inf, 1.0], [1e200, -1e200], [1e308, 1e308]])
def test_returns_without_measure_can_be_told(values: list[float]) -> None:
    """No return is so large that its feedback can't be written."""
    assert values == told(values)["returns"]


def test_a_second_submission_counts_on(new_run: RunMaker) -> None:
    """Episodes are numbered over the run, and the budget is what is left after the charge."""
    run = new_run()
    submit(run, "0-2")
    second = submit(run, [5, 5])

    assert tuple(
        second[name] for name in ("submit_index", "first_global_episode", "env_instances", "remaining_budget")
    ) == (1, 3, [5, 5], 3)
    assert sorted(path.name for path in (run.feedback(1) / "episodes").iterdir()) == ["ep_003", "ep_004"]


@pytest.mark.parametrize("status", ["missing_policy", "import_error", "init_error", "init_timeout"])
def test_what_could_not_be_loaded_is_told(new_run: RunMaker, status: str) -> None:
    """Where nothing was played every figure is null, errors.txt tells why, and the episodes are charged."""
    run = new_run()
    found = submit(run, "0-2", policy=status)
    error = json.loads((run.feedback(0) / "errors.txt").read_text(encoding="utf-8"))

    assert (status, 3, 5) == (found["status"], found["n_episodes"], found["remaining_budget"])
    assert [None] * len(OF_EPISODES) == [found[name] for name in OF_EPISODES]
    assert {"category", "message", "traceback", "timestamp"} == error.keys()
    assert (status, "it can't") == (error["category"], error["message"])
    assert list((run.feedback(0) / "episodes").iterdir()) == []
    assert run.executor.played == []


def test_an_ok_submission_has_no_errors_file(new_run: RunMaker) -> None:
    """errors.txt is there only where the status is not ok."""
    run = new_run()
    submit(run)

    assert sorted(path.name for path in run.feedback(0).iterdir()) == ["episodes", "summary.json"]


def test_what_an_interrupted_attempt_left_is_not_told(tmp_path: Path) -> None:
    """Of an attempt of which nothing is in the record, feedback has nothing: neither its error nor its episodes."""
    with open_run(tmp_path, {}) as run:
        name = capture(run.paths.system, run.paths.checkpoints, Limits())
    with RunWriter(tmp_path) as writer:
        writer.record(charged(0, checkpoint=name))
    staged = run.paths.staged_feedback(0)
    (staged / "episodes" / "ep_000").mkdir(parents=True)
    (staged / "errors.txt").write_text("too slow")
    with open_run(tmp_path) as run:
        run.session.published(0).result(PATIENCE_S)

    assert not (run.feedback(0) / "errors.txt").exists()
    assert sorted(path.name for path in (run.feedback(0) / "episodes").iterdir()) == ["ep_000", "ep_001"]
    assert list((run.feedback(0) / "episodes" / "ep_000").iterdir())


def test_failed_episodes_are_told_by_local_index(new_run: RunMaker) -> None:
    """errors and timeouts hold places in the submission; the episode's own error.txt says why."""
    run = new_run()
    submit(run, "3")
    run.executor.failures = {
        0: Failure(FailureReason.DIED, "it died"),
        1: Failure(FailureReason.TIMEOUT, "it took 5 s", 2),
        3: Failure(FailureReason.INVALID_ACTION, "no action"),
    }
    found = submit(run, "7-10")

    assert (found["status"], found["errors"], found["timeouts"]) == (("ok", [0, 3], [1]))
    assert len(found["returns"]) == 4
    assert sorted(path.parent.name for path in run.feedback(1).rglob("error.txt")) == ["ep_001", "ep_002", "ep_004"]


EPISODE_FILES = ["stderr.txt", "stdout.txt", "trajectory.jsonl"]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (FeedbackProfile.FULL, EPISODE_FILES),
        (FeedbackProfile.TRACES, EPISODE_FILES),
        (FeedbackProfile.RETURNS, []),
    ],
)
def test_a_profile_says_what_is_seen(
    new_run: RunMaker, tmp_path: Path, profile: FeedbackProfile, expected: list[str]
) -> None:
    """Under the profile of returns there is no file of an episode, and the rules describe the files that there are."""
    run = new_run(feedback=profile)
    submit(run, "0")
    create_workspace(RunPaths(tmp_path / "rules"), feedback=profile)
    rules = (tmp_path / "rules" / "workspace" / "AGENTS.md").read_text(encoding="utf-8")

    assert expected == sorted(path.name for path in run.feedback(0).glob("episodes/ep_000/*"))
    assert [title for title in ("Episodes", "Returns only") if f"## {title}\n" in rules] == [
        "Episodes" if expected else "Returns only"
    ]
    assert all(name in rules for name in expected)


def test_returns_hold_nothing_that_a_policy_wrote(new_run: RunMaker) -> None:
    """Neither the text of a failure nor a traceback is shown with returns; its kind and step are."""
    run = new_run(feedback=FeedbackProfile.RETURNS)
    run.executor.failures = {0: Failure(FailureReason.ERROR, "obs 0.25", 7, "Traceback: obs 0.25")}
    found = submit(run, "0-1")

    assert (found["ended"][0], found["act_seconds"]) == ("failed: error at step 7", None)
    assert [path.name for path in run.feedback(0).rglob("*") if path.is_file()] == ["summary.json"]
    assert "0.25" not in (run.feedback(0) / "summary.json").read_text(encoding="utf-8")


def test_feedback_is_read_only(new_run: RunMaker) -> None:
    """No file of a published feedback can be written, and no directory of it."""
    run = new_run()
    submit(run)
    paths = [run.feedback(0), *run.feedback(0).rglob("*")]

    assert {0o444, 0o555} == {stat.S_IMODE(path.stat().st_mode) for path in paths}


def test_feedback_hides_what_it_must(new_run: RunMaker, tmp_path: Path) -> None:
    """Neither feedback, /info nor /task holds a seed, a hidden case, an anchor or a path of the host."""
    run = new_run()
    run.executor.failures = {0: Failure(FailureReason.ERROR, "it raised", 0, "Traceback")}
    submit(run)
    texts = [path.read_text(encoding="utf-8") for path in run.feedback(0).rglob("*") if path.is_file()]
    answered, text = info(run.session.state, run.executor.info), task_text(run.session.state)
    selection = answered.pop("selection")  # how many hidden cases there are, and what they decide, is told
    before, _, after = text.partition("## Budget")
    texts += [json.dumps(answered), before, after.partition("## ")[2]]
    seeds = [str(seed) for split in cases.derive(SECRET, "toy").seeds.values() for seed in split]
    policy_seeds = [str(job.policy_seed) for _, job, _ in run.executor.played]
    hidden = [*seeds, *policy_seeds, "123.456", "0.789", str(tmp_path), SECRET.hex(), "commitment", "validation"]

    assert [word for word in hidden for text in texts if word in text] == []
    assert selection.keys() == {"validation_cases", "rule"}
    assert selection["validation_cases"] == run.session.state.opened.task.validation_cases


def test_env_meta_hides_what_it_must(new_run: RunMaker) -> None:
    """What a policy is told holds the protocol's words and no others."""
    run = new_run()
    submit(run, "0-2")
    _, _, context = run.executor.played[0]
    meta = context.env_meta()

    assert meta == {
        "env": "toy",
        "submit_index": 0,
        "n_episodes_this_submit": 3,
        "remaining_budget_after": 5,
        "max_episode_steps": 3,
        "obs_space": dict(run.executor.info.observation_schema),
        "action_space": dict(run.executor.info.action_schema),
        "reward_components": ["gain", "cost"],
    }


def test_components_are_told_where_they_are_declared(new_run: RunMaker) -> None:
    """A policy hears of reward components only where the spec declares some."""
    run = new_run()
    submit(run, "0")
    _, _, context = run.executor.played[0]

    assert "reward_components" not in replace(context, reward_components=()).env_meta()


def test_info_has_the_protocols_fields(new_run: RunMaker) -> None:
    """GET /info answers what the protocol lists."""
    run = new_run(budget=BudgetRule(8, 2, 4))
    found = info(run.session.state, run.executor.info)

    standing = {"remaining_budget": 8, "n_submits": 0, "remaining_films": 0, "is_finalized": False}
    assert found["state"] == {**standing, "remaining_submissions": None}
    assert (
        found["episode_budget"],
        found["min_episodes_per_submit"],
        found["max_episodes_per_submit"],
        found["env_meta"]["n_env_instances"],
    ) == (8, 2, 4, 16)
    assert {"resource_limits", "allowed_imports", "denied_imports", "protocol_version", "schema_version"} < found.keys()
    assert {"load_s", "reset_s", "act_s", "episode_s", "memory_mb", "processes", "output_kb"} <= found[
        "resource_limits"
    ].keys()
    assert (found["allowed_imports"], found["denied_imports"]) == (["numpy==2"], ["gymnasium"])


def test_no_module_is_both_allowed_and_denied(new_run: RunMaker) -> None:
    """A simulator may need a package that policies have too; then they may import it."""
    run = new_run()
    state = run.session.state
    task = replace(state.opened.task, environment=replace(TOY, packages=("numpy", "toys")))
    told = info(replace(state, opened=replace(state.opened, task=task)), run.executor.info)

    assert told["denied_imports"] == ["gymnasium", "toys"]


def test_the_task_is_told_in_sections(new_run: RunMaker) -> None:
    """GET /task is markdown with objective, observation, action, reward, termination and the contract."""
    text = task_text(new_run().session.state)
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]

    assert headings == [
        *("Objective", "Observation", "Action", "Reward", "Success", "Termination", "Budget", "Policy", "Rules"),
    ]
    assert text.partition("## Termination\n")[2].split("##")[0].strip() == "After three steps. Truncated after 3 steps."
    assert "- 1: go" in text
    assert "- [0] place (-inf to inf)" in text


@pytest.mark.parametrize("name", catalog.names())
def test_the_limit_on_steps_is_told_once(new_run: RunMaker, name: str) -> None:
    """Descriptions of Core16 name the limit, so that nothing is added to them."""
    state, spec = new_run().session.state, catalog.load(name)
    told = task_text(replace(state, opened=replace(state.opened, task=replace(state.opened.task, environment=spec))))

    assert told.partition("## Termination\n")[2].split("##")[0].count("after") == spec.termination.count("after")


def staged(root: Path) -> RunPaths:
    paths = RunPaths(root)
    (paths.staged_feedback(0) / "episodes" / "ep_000").mkdir(parents=True)
    paths.feedback.mkdir(parents=True)
    (paths.staged_feedback(0) / "summary.json").write_text("{}", encoding="utf-8")
    (paths.staged_feedback(0) / "episodes" / "ep_000" / "stdout.txt").write_text("a", encoding="utf-8")
    return paths


def test_feedback_appears_in_one_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feedback is absent until it is complete."""
    paths = staged(tmp_path)
    seen: list[bool] = []
    really = Path.rename

    def rename(source: Path, target: Path) -> Path:
        seen.append(paths.published_feedback(0).exists())
        return really(source, target)

    monkeypatch.setattr(Path, "rename", rename)
    publish(paths, 0)

    assert seen == [False]
    assert (paths.published_feedback(0) / "summary.json").read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("times", [1, 2])
def test_publishing_again_is_harmless(tmp_path: Path, times: int) -> None:
    """Whoever takes a run up publishes again; what is in place stays."""
    paths = staged(tmp_path)
    for _ in range(times):
        publish(paths, 0)

    assert [paths.published_feedback(0)] == list(paths.feedback.iterdir())
    assert stat.S_IMODE(paths.published_feedback(0).stat().st_mode) == 0o555


def test_a_directory_left_open_is_closed(tmp_path: Path) -> None:
    """A crash between the rename and the directory's mode is made good."""
    paths = staged(tmp_path)
    publish(paths, 0)
    paths.published_feedback(0).chmod(0o755)
    publish(paths, 0)

    assert stat.S_IMODE(paths.published_feedback(0).stat().st_mode) == 0o555


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_a_changed_feedback_has_another_hash(tmp_path: Path, change: str) -> None:
    """The hash in the journal holds to names and contents."""
    directory = staged(tmp_path).staged_feedback(0)
    before = feedback_sha256(directory)
    match change:
        case "content":
            (directory / "summary.json").write_text("{ }", encoding="utf-8")
        case "name":
            (directory / "summary.json").rename(directory / "summary.txt")
        case _:
            (directory / "more").touch()

    assert before != feedback_sha256(directory)


def test_feedback_is_on_disk_before_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and directory of a feedback is flushed."""
    directory = staged(tmp_path).staged_feedback(0)
    flushed: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    seal(directory)

    assert {directory, *directory.rglob("*")} == set(flushed)


def test_a_feedback_is_what_the_journal_says(new_run: RunMaker) -> None:
    """The journal's hash is that of the files in place."""
    run = new_run()
    submit(run)
    event = run.session.state.submissions[0].published

    assert event is not None
    assert feedback_sha256(run.feedback(0)) == event.feedback_sha256
    assert event.status == published(0).status
