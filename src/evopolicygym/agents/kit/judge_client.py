"""The judge client of built-in agents: typed requests over HTTP.

Programs in a workspace use ``runs/workspace_template/judge`` instead, which imports nothing of this package.
"""

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from evopolicygym.core.agent import AgentEnd, JudgeAddress, JudgeEndpoint, Turn
from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused
from evopolicygym.core.submission import STARTER, Setting

TRIES = 5
"""Attempts for each request while the connection fails. Submissions carry a key, so none is charged twice."""
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
    """The run asked the agent to stop while it was waiting."""


@dataclass(frozen=True, slots=True)
class Info:
    """The fields of the judge's ``/info`` that built-in agents use."""

    remaining_budget: int
    episode_budget: int
    min_episodes: int
    """Fewest episodes of a submission; a smaller remaining budget can be spent whole."""
    max_episodes: int
    """Most episodes of a submission."""
    n_cases: int
    """Number of train cases; their indices start at 0."""
    is_finalized: bool
    """Whether the run is closed, or allows no further submission whatever the budget."""
    env_meta: Mapping[str, Any]
    """Contains the schemas of both spaces, ``obs_space`` and ``action_space``."""
    allowed_imports: tuple[str, ...] = ()
    """Packages that a policy can import besides the standard library."""

    def portion(self, wanted: int, remaining: int) -> int:
        """Return the allowed number of episodes of a submission that is closest to ``wanted``."""
        return min(max(wanted, self.min_episodes), self.max_episodes, remaining)

    def cases(self, first: int, count: int) -> list[int]:
        """Return ``count`` consecutive train cases, starting over after the last."""
        return [index % self.n_cases for index in range(first, first + count)]


@dataclass(frozen=True, slots=True)
class Summary:
    """The fields of a submission's summary that built-in agents use."""

    submit_id: int
    status: str
    remaining_budget: int
    returns: tuple[float, ...]
    """The return of each episode, in the order of the request; empty if nothing was played."""
    failed: tuple[int, ...]
    """Indices into ``returns`` of episodes in which the policy failed."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Optional fields of a submission."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values of the policy's parameters for this submission."""
    parent: int | None = None
    """The submission that the policy was derived from; ``STARTER`` for the starter policy."""
    hypothesis: str = ""
    """The expected effect."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request."""
        parent = "starter" if self.parent == STARTER else self.parent
        fields = {"set": dict(self.settings), "parent": parent, "hypothesis": self.hypothesis}
        return {name: value for name, value in fields.items() if value not in ({}, None, "")}


class JudgeClient:
    """Sends requests to the judge."""

    def __init__(self, endpoint: JudgeAddress, stop: Event) -> None:
        """Connect to ``endpoint``; any wait raises ``StopRequested`` once ``stop`` is set."""
        self._base_url = endpoint.base_url
        self._stop = stop

    def info(self) -> Info:
        """Return the state of the run."""
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
        """Return all fields of ``/info``."""
        return self._ask("/info")

    def task(self) -> str:
        """Return the task description as Markdown: the goal, observations and actions."""
        return self._read("/task").decode("utf-8")

    def check(self, settings: Mapping[str, Setting] | None = None) -> dict[str, Any]:
        """Construct the current policy where policies play and request one action; return status, error and output.

        ``settings`` are values of its parameters for this check.
        """
        return self._ask("/check", {"set": dict(settings)} if settings else {})

    def policy_of(self, submit_id: int) -> dict[str, bytes]:
        """Return the files of a submission's policy, by path in ``system/``."""
        return _decode(self._ask(f"/submissions/{submit_id:03d}/policy"))

    def restore(self, submit_id: int) -> dict[str, bytes]:
        """Return the same, and make this submission the parent of the next one."""
        return _decode(self._ask(f"/submissions/{submit_id:03d}/restore", {}))

    def submit(
        self, indices: Sequence[int] | str, key: str, films: Sequence[int] = (), remarks: Remarks | None = None
    ) -> Summary:
        """Submit the current policy and wait for its summary.

        ``indices`` are train cases, as numbers or as a range string such as ``"0-7,12"``. A repeated key returns the
        same submission without another charge. Raises ``SubmissionsClosed``, ``RequestRefused`` on any other refusal,
        ``StopRequested`` and ``JudgeUnreachable``.
        """
        cases = indices if isinstance(indices, str) else list(indices)
        film_fields = {"films": list(films)} if films else {}
        remark_fields = remarks.fields if remarks else {}
        body = {"env_instances": cases, "key": key, "wait": False, **film_fields, **remark_fields}
        answer = self._ask("/submit", body)
        path, pause_s = f"/submissions/{int(answer['submit_id']):03d}", 0.01
        while (summary := answer.get("summary")) is None:
            self._pause(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.5)
            answer = self._ask(path)
        return _summary(int(answer["submit_id"]), summary)

    def standing(self) -> str:
        """Return the state of all submissions as a string that changes with it."""
        return json.dumps(self._ask("/submissions"))

    def finish(self) -> None:
        """End the run with budget left; raise ``RequestRefused`` if that is not allowed."""
        self._ask("/finish", {})

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
    """Play one turn of a built-in agent; ``play`` returns the turn's message."""
    try:
        return Turn(AgentEnd.FINISHED, play(JudgeClient(endpoint.address, stop)))
    except SubmissionsClosed as closed:
        return Turn(AgentEnd.FINISHED, str(closed))
    except StopRequested as stopped:
        return Turn(AgentEnd.STOPPED, str(stopped))
    except (RequestRefused, JudgeUnreachable) as error:
        return Turn(AgentEnd.CRASHED, str(error))


def _decode(answer: Mapping[str, Any]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in answer["files"].items()}


def _summary(submit_id: int, summary: Mapping[str, Any]) -> Summary:
    failed = {int(place) for name in ("errors", "timeouts") for place in summary.get(name) or ()}
    return Summary(
        submit_id=submit_id,
        status=str(summary["status"]),
        remaining_budget=int(summary["remaining_budget"]),
        returns=tuple(map(float, summary.get("returns") or ())),  # numbers that are not finite are strings
        failed=tuple(sorted(failed)),
    )


def _refusal(error: urllib.error.HTTPError) -> RequestRefused:
    text = error.read().decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        status, message = str(answer["status"]), str(answer["error"]["message"])
    except (ValueError, KeyError, TypeError):
        status, message = RefusalStatus.UNAVAILABLE, text[:300]
    kind = SubmissionsClosed if status == RefusalStatus.CLOSED else RequestRefused
    return kind(status, message, error.code)


def submit_once(judge: JudgeClient, key: str) -> None:
    """Submit the current policy on as many train cases as one submission allows."""
    info = judge.info()
    judge.submit(info.cases(0, info.portion(info.episode_budget, info.episode_budget)), key)
