"""The judge's client for built-in agents: typed answers, and the errors of this package."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from evopolicygym.core.agent import AgentEnd, JudgeEndpoint, Turn
from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused
from evopolicygym.core.submission import STARTER, Setting
from evopolicygym.judge_client import client
from evopolicygym.judge_client.address import JudgeAddress


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


class JudgeClient(client.Client):
    """The judge's client with typed answers and the errors of this package.

    Every request raises ``RequestRefused``, ``SubmissionsClosed``, ``StopRequested`` or ``JudgeUnreachable``.
    """

    def __init__(self, address: JudgeAddress, stop: Event) -> None:
        """Ask the judge at an address; any wait raises ``StopRequested`` once ``stop`` is set."""
        super().__init__(lambda: address, self._wait)
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

    def submit(
        self, indices: Sequence[int] | str, key: str, films: Sequence[int] = (), remarks: Remarks | None = None
    ) -> Summary:
        """Submit the current policy and wait for its summary.

        ``indices`` are train cases, as numbers or as a range string such as ``"0-7,12"``. A repeated key returns the
        same submission without another charge.
        """
        cases = indices if isinstance(indices, str) else list(indices)
        fields = (remarks or Remarks()).fields
        number = int(self.accept(cases, key, films=list(films), **fields)["submit_id"])
        return _summary(number, self.wait(number)["summary"])

    def request(self, path: str, body: Mapping[str, object] | None = None, timeout_s: float | None = None) -> bytes:
        """Return an answer; raise the client's errors as those of the package."""
        try:
            return super().request(path, body, timeout_s)
        except client.Refused as refused:
            kind = SubmissionsClosed if refused.status == RefusalStatus.CLOSED else RequestRefused
            raise kind(refused.status or RefusalStatus.UNAVAILABLE, refused.message, refused.http_status) from refused
        except client.Unreachable as error:
            raise JudgeUnreachable(str(error)) from error

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StopRequested("The agent was asked to stop while it waited for the judge.")


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


def _summary(submit_id: int, summary: Mapping[str, Any]) -> Summary:
    failed = {int(index) for name in ("errors", "timeouts") for index in summary.get(name) or ()}
    return Summary(
        submit_id=submit_id,
        status=str(summary["status"]),
        remaining_budget=int(summary["remaining_budget"]),
        returns=tuple(map(float, summary.get("returns") or ())),  # numbers that are not finite are strings
        failed=tuple(sorted(failed)),
    )


def submit_once(judge: JudgeClient, key: str) -> None:
    """Submit the current policy on as many train cases as one submission allows."""
    info = judge.info()
    judge.submit(info.cases(0, info.portion(info.episode_budget, info.episode_budget)), key)
