"""Plain classes for training loops: one whose methods are tools, as TRL wants it, and one that is stepped by texts.

Both play in this process, or by a server (``evopolicygym train serve``) whose ``url`` they are given. In this process,
all environments with the same number of workers share one pool, which ends with the process.
"""

import atexit
import json
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from threading import Lock
from typing import Any, Protocol, Unpack
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused, UsageError
from evopolicygym.training.actions import HOW, actions_of
from evopolicygym.training.draw import LIMITS
from evopolicygym.training.pool import Pool
from evopolicygym.training.session import Outcome, TrainingSession, join_outcomes
from evopolicygym.training.sessions import SessionFactory, TrainingConfig, TrainingOptions, training_config

WAIT_S = 600.0
"""Seconds that a look and a finish wait for what is played."""
ANSWER_S = 3600.0
"""Seconds within which a server must answer."""
_pools: dict[tuple[int | None, str], Pool] = {}
"""By number of workers and isolation."""
_lock = Lock()


class Seat(Protocol):
    """A session, wherever it is played."""

    task: str

    def step(self, step: Mapping[str, Any], wait_s: float) -> Outcome:
        """Take a step: an ``action`` with ``arguments``, or a ``text``."""

    def document(self) -> dict[str, Any]:
        """Return what is known of the session."""

    def close(self) -> None:
        """Close the session."""


class LocalSeat:
    """A session in this process."""

    def __init__(self, config: TrainingConfig, seed: int) -> None:
        """Open the session that a seed names."""
        self._session: TrainingSession = SessionFactory(config, _pool_of(config)).open(seed)
        self.task = self._session.task

    def step(self, step: Mapping[str, Any], wait_s: float) -> Outcome:
        """Take a step; a refusal is its outcome."""
        outcomes = list[Outcome]()
        for action, arguments in actions_of(step):
            try:
                outcomes.append(self._session.act(action, arguments, wait_s))
            except RequestRefused as refused:
                if self._session.closed:
                    raise
                outcomes.append(self._session.refusal_outcome(refused))
                break
        return join_outcomes(outcomes)

    def document(self) -> dict[str, Any]:
        """Return what is known of the session."""
        return self._session.document

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def _pool_of(config: TrainingConfig) -> Pool:
    wanted = config.workers, config.isolation
    with _lock:
        if wanted not in _pools:
            _pools[wanted] = Pool(LIMITS, *wanted)
            atexit.register(_pools[wanted].close)
        return _pools[wanted]


class RemoteSeat:
    """A session of a server."""

    def __init__(self, url: str, seed: int) -> None:
        """Open the session that a seed names; raise ``UsageError`` if the server doesn't answer."""
        self._url, self._id = url.rstrip("/"), ""
        opened = self._ask("/seed_session", {"seed": seed})
        self._id, self.task = str(opened["session"]), str(opened["task"])

    def step(self, step: Mapping[str, Any], wait_s: float) -> Outcome:
        """Take a step."""
        answer = self._ask("/act", {**step, "wait_s": wait_s})
        return Outcome(answer["text"], answer["reward"], answer["done"], answer["rewards"])

    def document(self) -> dict[str, Any]:
        """Return what is known of the session."""
        return self._ask("/session", None)

    def close(self) -> None:
        """Close the session."""
        self._ask("/close_session", {})

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        headers = {"content-type": "application/json", **({"x-session-id": self._id} if self._id else {})}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}{path}", data, headers)  # noqa: S310 - the URL is the user's
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=ANSWER_S) as response:
                document: dict[str, Any] = json.load(response)
                return document
        except HTTPError as error:
            raise _refusal(error) from error
        except (OSError, HTTPException) as error:
            raise EvoPolicyGymError(
                f"The training server doesn't answer ({error}); a session of it is lost if it was restarted."
            ) from error


def _refusal(error: HTTPError) -> EvoPolicyGymError:
    try:
        message = str(json.load(error)["error"])
    except (ValueError, LookupError, TypeError):
        message = f"The training server answered with HTTP status {error.code}."
    if error.code in {400, 413}:
        return UsageError(message)
    return RequestRefused(RefusalStatus.CLOSED, message, error.code)


class TrainingEnvironment:
    """One rollout at a time, whose methods are an agent's tools: the ``environment_factory`` of TRL's ``GRPOTrainer``.

    ``reset`` gets a data set's columns, of which ``seed`` names the session; ``get_reward`` ends it. A submission
    returns at once, and ``look`` waits for its result.
    """

    def __init__(self, url: str = "", **options: Unpack[TrainingOptions]) -> None:
        """Without a training server's ``url``, sessions are played in this process.

        Args:
            url: The server's address; it has options of its own.
            **options: What sessions are drawn from and worth (``TrainingOptions``), such as ``tasks=["cartpole"]``.

        Raises:
            UsageError: An option is invalid.
        """
        self._config, self._url = _config_of(url, options), url
        self._seat: Seat | None = None

    def reset(self, seed: int = 0, **_columns: object) -> str:
        """Begin the session that a seed names, and return its task.

        Args:
            seed: Names the session.
        """
        self._close()
        self._seat = open_seat(self._config, self._url, seed)
        return self._seat.task

    def write(self, path: str, content: str) -> str:
        """Write a file of the policy; it replaces the file of that name.

        Args:
            path: The file's path, such as policy.py.
            content: Its whole content.
        """
        return self._take("write", 0.0, path=path, content=content)

    def submit(self, episodes: int, first_case: int = 0) -> str:
        """Play the policy for some train episodes of the budget.

        Args:
            episodes: How many.
            first_case: The first of the train cases, from 0.
        """
        return self._take("submit", 0.0, episodes=episodes, first_case=first_case)

    def look(self, step: int = 0) -> str:
        """See what the submissions returned, and some steps of the latest one's first episode.

        Args:
            step: The first step to see, from 0.
        """
        return self._take("look", WAIT_S, step=step)

    def finish(self) -> str:
        """End here: the best submission is selected and scored on hidden cases."""
        return self._take("finish", 0.0)

    def get_reward(self) -> float | None:
        """Finish, if the agent hasn't, and return the sum of all rewards; None if the session could not be scored."""
        if self._seat is None:
            return None
        try:
            outcome = self._seat.step({"action": "finish"}, WAIT_S)
            while not outcome.done:
                outcome = self._seat.step({"action": "look"}, WAIT_S)
            return float(self._seat.document()["worth"]["value"])
        except EvoPolicyGymError:
            return None
        finally:
            self._close()

    def _take(self, action: str, wait_s: float, **arguments: object) -> str:
        if self._seat is None:
            return "Refused: there is no session yet."
        return self._seat.step({"action": action, "arguments": arguments}, wait_s).text

    def _close(self) -> None:
        if self._seat is not None:
            seat, self._seat = self._seat, None
            with suppress(EvoPolicyGymError):  # it may be gone already
                seat.close()

    def __del__(self) -> None:
        """Close the session of an environment that is no longer referenced."""
        self._close()


class TextEnvironment:
    """A loop of texts, stepped as Gymnasium's environments are; rewards add up to the final score less the cost."""

    def __init__(self, url: str = "", **options: Unpack[TrainingOptions]) -> None:
        """As for ``TrainingEnvironment``."""
        self._config, self._url = _config_of(url, options), url
        self._seat: Seat | None = None

    def reset(self, *, seed: int = 0) -> tuple[str, dict[str, Any]]:
        """Begin the session that a seed names; return its task and what is known of it."""
        self.close()
        self._seat = open_seat(self._config, self._url, seed)
        return f"{self._seat.task}\n{HOW}\n", self._seat.document()

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act by a model's text, or by ``{"action": name, "arguments": {...}}``.

        Return the observation, the reward, whether the session is scored, False, and the rewards by name.
        """
        if self._seat is None:
            raise UsageError("There is no session: call reset first.")
        step = {"text": action} if isinstance(action, str) else action
        outcome = self._seat.step(step, WAIT_S)
        return outcome.text, outcome.reward, outcome.done, False, dict(outcome.rewards)

    def close(self) -> None:
        """Close the session."""
        if self._seat is not None:
            seat, self._seat = self._seat, None
            seat.close()


def _config_of(url: str, options: TrainingOptions) -> TrainingConfig:
    if url and options:
        raise UsageError(f"Invalid {next(iter(options))}: expected none beside a url: the server has its own.")
    return training_config(**options)


def open_seat(config: TrainingConfig, url: str, seed: int) -> Seat:
    """Open the session that a seed names, here or at a server."""
    return RemoteSeat(url, seed) if url else LocalSeat(config, seed)
