"""The judge's client of built-in agents: typed requests over HTTP, answers decoded once.

The client for an agent's own programs is ``runs/workspace_template/judge``, which stands alone in a workspace.
"""

import base64
import http.client
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from evopolicygym.core.agent import AgentEnd, JudgeAddress, JudgeEndpoint, Turn
from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused
from evopolicygym.core.submission import STARTER, Setting

TRIES = 5
"""How often a request is made while the connection fails. Submissions carry a key, so none is charged twice."""
PAUSE_S = 0.2
TIMEOUT_S = 60.0
LONGEST_PAUSE_S = 0.5
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class SubmissionsClosed(RequestRefused):
    """The run takes no more submissions."""


class JudgeUnreachable(EvoPolicyGymError):
    """The judge doesn't answer."""

    exit_code = 5


class StopRequested(EvoPolicyGymError):
    """The agent was asked to stop while it waited."""


@dataclass(frozen=True, slots=True)
class Info:
    """What the judge says of the run, as far as built-in agents use it."""

    remaining_budget: int
    episode_budget: int
    min_episodes: int
    """Of one submission; what is left may be less, and can then be spent whole."""
    max_episodes: int
    n_cases: int
    """How many train cases there are, counted from 0."""
    is_finalized: bool
    """Whether nothing more can be submitted, the budget aside."""
    env_meta: Mapping[str, Any]
    """Holds the schemas of both spaces, ``obs_space`` and ``action_space``."""
    allowed_imports: tuple[str, ...] = ()
    """What a policy can import besides the standard library."""

    def portion(self, wanted: int, remaining: int) -> int:
        """Return how many episodes one submission may ask for, as near to ``wanted`` as the rules have it."""
        return min(max(wanted, self.min_episodes), self.max_episodes, remaining)

    def cases(self, first: int, count: int) -> list[int]:
        """Return so many train cases in order, beginning again after the last."""
        return [index % self.n_cases for index in range(first, first + count)]


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a submission, as far as built-in agents use it."""

    submit_id: int
    status: str
    remaining_budget: int
    returns: tuple[float, ...]
    """One an episode, in the order asked for; empty where nothing was played."""
    failed: tuple[int, ...]
    """Places in ``returns`` of episodes whose policy failed."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """What may be said with a submission, beside its cases."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values that parameters of the policy are to have in it."""
    parent: int | None = None
    """The submission that the policy was made from, ``STARTER`` for the starter policy."""
    hypothesis: str = ""
    """What is expected of it."""

    @property
    def fields(self) -> dict[str, Any]:
        """The request's fields that say so."""
        parent = "starter" if self.parent == STARTER else self.parent
        fields = {"set": dict(self.settings), "parent": parent, "hypothesis": self.hypothesis}
        return {name: value for name, value in fields.items() if value not in ({}, None, "")}


class JudgeClient:
    """Asks the judge."""

    def __init__(self, endpoint: JudgeAddress, stop: Event, feedback: Path | None = None) -> None:
        """Ask at ``endpoint``; raise ``StopRequested`` out of any wait once ``stop`` is set.

        ``feedback`` is the workspace's: what came of the submission that spent the budget is read there where the judge
        has left by the time that it is asked.
        """
        self._feedback = feedback
        self._base_url = endpoint.base_url
        self._stop = stop

    def info(self) -> Info:
        """Return how the run stands."""
        answer = self.all_info()
        state, env_meta = answer["state"], answer["env_meta"]
        budget = int(answer["episode_budget"])
        return Info(
            remaining_budget=int(state["remaining_budget"]),
            episode_budget=budget,
            min_episodes=int(answer.get("min_episodes_per_submit") or 1),
            max_episodes=int(answer.get("max_episodes_per_submit") or budget),
            n_cases=int(env_meta["n_env_instances"]),
            is_finalized=bool(state["is_finalized"]) or state.get("remaining_submissions") == 0,
            env_meta=env_meta,
            allowed_imports=tuple(answer.get("allowed_imports") or ()),
        )

    def all_info(self) -> dict[str, Any]:
        """Return all that the judge says of the run."""
        return self._ask("/info")

    def task(self) -> str:
        """Return what the policy is to achieve, and what it sees and does, as markdown."""
        return self._read("/task").decode("utf-8")

    def check(self, settings: Mapping[str, Setting] | None = None) -> dict[str, Any]:
        """Return whether the policy as it stands works where it would play: ``status``, ``error``, what it printed.

        It is constructed and asked for one action; ``settings`` are values of its parameters for this once.
        """
        return self._ask("/check", {"set": dict(settings)} if settings else {})

    def policy_of(self, submit_id: int) -> dict[str, bytes]:
        """Return the files of a submission's policy, by their paths in ``system/``."""
        return _decoded(self._ask(f"/submissions/{submit_id:03d}/policy"))

    def restore(self, submit_id: int) -> dict[str, bytes]:
        """Return the same, and have the judge know that the next policy is made from it."""
        return _decoded(self._ask(f"/submissions/{submit_id:03d}/restore", {}))

    def submit(
        self, indices: Sequence[int] | str, key: str, films: Sequence[int] = (), said: Remarks | None = None
    ) -> Summary:
        """Submit the policy as it stands and wait for what comes of it.

        ``indices`` are train cases, as numbers or as a text such as ``"0-7,12"``. The same key is the same submission,
        charged once. Raises ``SubmissionsClosed``, ``RequestRefused`` on any other refusal, ``StopRequested`` and
        ``JudgeUnreachable``.
        """
        cases = indices if isinstance(indices, str) else list(indices)
        filmed = {"films": list(films)} if films else {}
        fields = said.fields if said else {}
        answer = self._ask("/submit", {"env_instances": cases, "key": key, "wait": False, **filmed, **fields})
        path, pause_s = f"/submissions/{int(answer['submit_id']):03d}", 0.01
        while (summary := answer.get("summary")) is None:
            self._pause(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.5)
            try:
                answer = self._ask(path)
            except JudgeUnreachable:
                answer = {**answer, "summary": self._published(int(answer["submit_id"]))}
                if answer["summary"] is None:
                    raise
        return _summary(int(answer["submit_id"]), summary)

    def standing(self) -> str:
        """Return how all submissions stand, as a text that changes when anything of it does."""
        return json.dumps(self._ask("/submissions"))

    def finish(self) -> None:
        """Ask to end the run with budget left; raise ``RequestRefused`` where that is not allowed."""
        self._ask("/finish", {})

    def _published(self, submit_id: int) -> dict[str, Any] | None:
        """Return the summary that lies in the workspace, if there is one: it appears whole."""
        file = self._feedback / f"submit_{submit_id:03d}" / "summary.json" if self._feedback else None
        if file is None or not file.is_file():
            return None
        found: dict[str, Any] = json.loads(file.read_bytes())
        return found

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StopRequested("The agent was asked to stop while it waited for the judge.")

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._read(path, body))
        return answer

    def _read(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - the judge's own address
            self._base_url + path, data, {"Content-Type": "application/json"}
        )
        for left in reversed(range(TRIES)):
            try:
                with _OPENER.open(request, timeout=TIMEOUT_S) as response:
                    return bytes(response.read())
            except urllib.error.HTTPError as error:
                raise _refusal(error) from error
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    raise JudgeUnreachable(f"The judge did not answer {TRIES} times: {error}") from error
                self._pause(PAUSE_S)
        raise AssertionError("unreachable")


def turn(play: Callable[[JudgeClient], str], endpoint: JudgeEndpoint, stop: Event) -> Turn:
    """Play one turn of a built-in agent against a judge; ``play`` returns what is to be reported of it."""
    try:
        return Turn(AgentEnd.FINISHED, play(JudgeClient(endpoint.address, stop)))
    except SubmissionsClosed as closed:
        return Turn(AgentEnd.FINISHED, str(closed))
    except StopRequested as stopped:
        return Turn(AgentEnd.STOPPED, str(stopped))
    except (RequestRefused, JudgeUnreachable) as error:
        return Turn(AgentEnd.CRASHED, str(error))


def _decoded(answer: Mapping[str, Any]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in answer["files"].items()}


def _summary(submit_id: int, summary: Mapping[str, Any]) -> Summary:
    failed = {int(place) for name in ("errors", "timeouts") for place in summary.get(name) or ()}
    return Summary(
        submit_id=submit_id,
        status=str(summary["status"]),
        remaining_budget=int(summary["remaining_budget"]),
        returns=tuple(_number(value) for value in summary.get("returns") or ()),
        failed=tuple(sorted(failed)),
    )


def _number(value: float | str) -> float:
    """Return a number as the judge writes it: what is not finite is text."""
    return float(value)


def _refusal(error: urllib.error.HTTPError) -> RequestRefused:
    text = error.read().decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        status, message = str(answer["status"]), str(answer["error"]["message"])
    except (ValueError, KeyError, TypeError):
        status, message = RefusalStatus.UNAVAILABLE, text[:300]
    kind = SubmissionsClosed if status == RefusalStatus.CLOSED else RequestRefused
    return kind(status, message, error.code)


def replace_system(system: Path, files: Mapping[str, bytes]) -> None:
    """Have a directory hold these files, by their paths in it, and nothing else."""
    for old in system.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name, content in files.items():
        file = system / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def submit_once(judge: JudgeClient, key: str) -> None:
    """Submit the policy as it stands on as many train cases as one submission may have."""
    info = judge.info()
    judge.submit(info.cases(0, info.portion(info.episode_budget, info.episode_budget)), key)
