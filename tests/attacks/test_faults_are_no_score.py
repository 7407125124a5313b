"""A simulator, sandbox, disk or model server that fails gives no score: the run stops, and resumed it ends as usual."""

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.agents.kit.neutral_harness import model_client
from evopolicygym.agents.kit.scripted_model.server import Reply, ScriptedModel
from evopolicygym.core.errors import AgentError, EnvironmentFault, EvoPolicyGymError, SandboxError, UsageError
from evopolicygym.core.rollout import Episode, EpisodeJob, Rollout
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs import run as runs
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import agent, calling
from players import GOOD
from whole_runs import config, played

RUN: dict[str, Any] = {"budget": 2, "validation": 1, "held_out": 2, "split": "public", "workers": 1}
FAULTS = {
    "simulator": EnvironmentFault("The simulator failed."),
    "sandbox": SandboxError("The sandbox failed."),
    "disk": OSError(errno.ENOSPC, "No space left on device"),
}
TRAIN, VALIDATION, HELD_OUT = 1, 2, 3
"""Rollouts of a run of one submission, in their order."""
ROLLOUTS = [TRAIN, *(pytest.param(rollout, marks=pytest.mark.nightly) for rollout in (VALIDATION, HELD_OUT))]


def submit_good(session: evopolicygym.Session) -> None:
    """Spend the budget on a policy that never fails."""
    session.submit(GOOD, episodes=2)


def enclosed(place: Path) -> object:
    """Play a run whose agent the run starts, or resume it."""
    if list(place.rglob("journal.jsonl")):
        return evopolicygym.resume("latest", agent=submit_good, runs=place)
    return evopolicygym.run("cartpole", submit_good, runs=place, **RUN)


def outside(place: Path) -> object:
    """Play a run whose agent is outside, or resume it; one that is closed is only scored, and says so."""
    resumed = bool(list(place.rglob("journal.jsonl")))
    how: dict[str, Any] = {"resume": "latest", "workers": 1} if resumed else {"task": "cartpole", **RUN}
    try:
        with evopolicygym.serve(runs=place, **how) as session:
            if session.remaining:
                submit_good(session)
    except UsageError as closed:
        return closed
    return session.run


def fail_at(rollout: int, fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the executor fail in its n-th rollout, after one episode where it has several."""
    play, count = LocalExecutor.play, 0

    def failing(
        self: LocalExecutor, rollouts: Sequence[Rollout], repeated: Callable[[Rollout, EpisodeJob, str], None]
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        nonlocal count
        count += 1
        if count != rollout:
            yield from play(self, rollouts, repeated)
            return
        *whole, last = rollouts
        yield from play(self, [*whole, replace(last, jobs=last.jobs[:-1])], repeated)
        raise fault

    monkeypatch.setattr(LocalExecutor, "play", failing)


def document(place: Path) -> dict[str, Any]:
    """Return the document of the one run."""
    (file,) = place.rglob("run.json")
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found


@pytest.mark.parametrize("rollout", ROLLOUTS)
@pytest.mark.parametrize("play", [enclosed, outside])
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, play: Callable[[Path], object], rollout: int
) -> None:
    """The run stops unscored with its charge, and once mended ends with the budget and the score of any other."""
    with monkeypatch.context() as broken:
        fail_at(rollout, FAULTS[what], broken)
        with pytest.raises((EvoPolicyGymError, OSError)):
            play(tmp_path)
    stopped = document(tmp_path)
    play(tmp_path)
    ended = document(tmp_path)

    assert (stopped["stage"] == "finished", stopped["outcome"]["score"]) == (False, None)
    assert stopped["budget"] == ended["budget"] == {"episodes": 2, "spent": 2, "submissions": 1}
    assert (ended["stage"], ended["outcome"]["score"]) == ("finished", 500.0)


def test_a_model_server_that_fails_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose model stays away after a submission waits for it with the budget that is left."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setattr(model_client, "_wait", lambda _seconds, _pause: None)
    with ScriptedModel() as model:
        asked = replace(config(tmp_path, budget=2, isolation="none"), agent=agent(model, ApiFormat.CHAT))
        model.replies += [calling(ApiFormat.CHAT, "./judge submit 0"), *[Reply(status=500)] * model_client.TRIES]
        with pytest.raises(AgentError, match="500"):
            played(asked)
        stopped = document(tmp_path)
        model.replies += [calling(ApiFormat.CHAT, "./judge submit 1")]
        (journal,) = tmp_path.rglob("journal.jsonl")
        runs.resume(journal.parent, 1, lambda _paths, _state: None, lambda _event, _state: None)
    ended = document(tmp_path)

    assert (stopped["stage"], stopped["outcome"]["score"], stopped["budget"]["spent"]) == ("open", None, 1)
    assert (ended["stage"], ended["budget"]["spent"]) == ("finished", 2)
    assert ended["outcome"]["score"] is not None
