"""Training sessions of a server of EvoPolicyGym for verifiers, which it meets over HTTP alone.

The model plays by texts: a block of Python fenced by ```python replaces ``policy.py``, and a line ``/submit 8``,
``/look`` or ``/finish`` acts. An episode stops when the session is over, and a session is closed with its episode,
also where that fails. The curve of rewards lies in ``trace.info``.

    vf-eval evopolicygym_train -n 2 -r 2 -c 4 -m MODEL --env.taskset.url http://127.0.0.1:8000/TOKEN …
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import httpx
import verifiers.v1 as vf

__all__ = ["TrainingEnv", "TrainingTaskset"]
HOW = (
    "You have no tools but your text. A block of Python fenced by ```python and ``` replaces policy.py; a line "
    "/submit 8, /look or /finish acts."
)
METRICS = ("train", "validation", "held_out", "cost", "episodes", "submissions")


class TrainingData(vf.TaskData):
    """One session, named by its seed."""

    seed: int
    url: str
    timeout_s: float


class TrainingConfig(vf.TasksetConfig):
    """Which sessions are played, and where."""

    url: str = "http://127.0.0.1:8000"
    """The training server's address, with its token."""
    first_seed: int = 0
    """The first seed; each task has the next one, without end."""
    timeout_s: float = 3600.0
    """Seconds within which the server must answer."""


class TrainingTask(vf.Task[TrainingData]):
    """A session to play."""


class TrainingTaskset(vf.Taskset[TrainingTask, TrainingConfig]):
    """Sessions without end."""

    INFINITE = True

    def load(self) -> Iterator[TrainingTask]:
        """Yield a task for each seed."""
        config = self.config
        for seed in count(config.first_seed):
            data = TrainingData(name=f"session-{seed}", seed=seed, url=config.url, timeout_s=config.timeout_s)
            yield TrainingTask(data, config.task)


class TrainingEnvConfig(vf.EnvConfig):
    """The agent that plays."""

    agent: vf.AgentConfig = vf.AgentConfig()


class TrainingEnv(vf.Env[TrainingEnvConfig]):
    """Has the agent play a session until it is over, and scores it."""

    async def run(self, task: TrainingTask, agents: vf.Agents) -> None:
        """Play one session."""
        data = task.data
        async with httpx.AsyncClient(base_url=data.url.rstrip("/"), timeout=data.timeout_s) as client:
            opened = await _ask(client, "/seed_session", {"seed": data.seed})
            client.headers["x-session-id"] = opened["session"]
            try:
                trace = await _play(client, opened["task"], task, agents)
                result = await _ask(client, "/verify", {})
            finally:
                with suppress(httpx.HTTPError):
                    await client.post("/close_session", json={})
        trace.info["evopolicygym"] = {name: result.get(name) for name in ("curve", "task", "split", "session")}
        trace.record_reward("value", result["reward"])
        trace.record_metrics({name: result[name] for name in METRICS if name in result})


async def _play(client: httpx.AsyncClient, text: str, task: TrainingTask, agents: vf.Agents) -> vf.Trace:
    async with agents.agent.interaction(task) as interaction:
        segment = await interaction.turn(f"{text}\n{HOW}")
        while not segment.terminated:
            outcome = await _ask(client, "/act", {"text": segment.last_reply})
            if outcome["done"]:
                interaction.trace.stop("finished")
                break
            segment = await interaction.turn(outcome["text"])
    return interaction.trace


async def _ask(client: httpx.AsyncClient, path: str, body: dict[str, object]) -> dict:
    response = await client.post(path, json=body)
    if response.is_error:
        raise vf.TaskError(f"{path}: {response.json().get('error', response.text)}")
    return response.json()
