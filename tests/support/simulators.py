"""Simulators that only tests play, registered with gymnasium by the import of this module; and how they misbehave."""

import math
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from evopolicygym.core.task import EnvironmentSpec, TaskKind

STEPS = 5
RAISES, RAISES_ONCE, HANGS, EXITS, GIVES_NAN, GIVES_NONSENSE, SEGFAULTS, IS_KILLED, IS_KILLED_ONCE = range(100, 109)
"""Seeds on which ``Faulty-v0`` misbehaves at its third step."""


def spec(simulator: str, max_steps: int = STEPS, **arguments: Any) -> EnvironmentSpec:
    """Return the spec of one of the simulators below."""
    words = {"objective": "o", "reward": "r", "termination": "t", "observation": (), "action": ()}
    return EnvironmentSpec(
        name=simulator.lower(),
        id=f"{simulator}-v0",
        family="tests",
        kind=TaskKind.TUNING,
        max_steps=max_steps,
        idle_action=[0.0],
        imports=("simulators",),
        arguments=arguments,
        reward_components=("effort",) if simulator == "Plain" else (),
        **words,  # type: ignore[arg-type] # all of them are texts or tuples of texts
    )


def hang() -> None:
    """Make no progress, with the watchdog's time up at once if it runs."""
    while True:
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(1)


class Plain(gymnasium.Env[Any, Any]):
    """Two numbers that drift by the seed; the reward is what the action costs."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        effort = -float(np.abs(action).sum())
        return self._observe(), effort - 1.0, False, False, {"effort": effort, "level": np.float32(0.5)}

    def _observe(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)


def rounding() -> float:
    """Return a number whose last bits depend on how libraries compute."""
    random = np.random.default_rng(1)
    square, vector = random.standard_normal((17, 17)), random.standard_normal(257)
    rounded = [np.linalg.solve(square, square[0]).sum(), vector @ vector, np.exp(vector).sum(), np.tanh(vector).sum()]
    return float(sum(rounded) + sum(math.sin(number) for number in vector))


class Rounding(Plain):
    """Its reward is that number."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002 - none matters
        return self._observe(), rounding(), False, False, {}


class Littering(Plain):
    """Leaves a temporary file behind at each step; on one seed its process is killed, the first time it is played."""

    def __init__(self, marker: str = "") -> None:
        self._marker, self._seed = Path(marker), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seed = seed or 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        os.close(tempfile.mkstemp(prefix="litter")[0])
        if self._seed == IS_KILLED and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Keeping(Plain):
    """Keeps four megabytes of every episode."""

    kept: ClassVar[list[Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.kept.append(np.ones(500_000))
        return super().reset(seed=seed, options=options)


class Chooser(Plain):
    """The same, with one of three actions."""

    action_space = spaces.Discrete(3, start=-1)


class Composite(Plain):
    """An observation and an action of every kind."""

    observation_space = spaces.Dict(
        {
            "picture": spaces.Box(0, 255, (2, 3), np.uint8),
            "count": spaces.Discrete(5, start=1),
            "pair": spaces.Tuple([spaces.MultiBinary(3), spaces.MultiDiscrete([4, 5])]),
            "word": spaces.Text(8, charset="abcü"),
        }
    )  # type: ignore[assignment] # not the space of Plain
    action_space = spaces.Dict({"go": spaces.Discrete(2), "aim": spaces.Box(-1.0, 1.0, (2,), np.float32)})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observe(), float(action["go"]), False, False, {}

    def _observe(self) -> Any:
        picture = np.arange(6, dtype=np.uint8).reshape(2, 3)
        pair = (np.array([1, 0, 1], np.int8), np.array([3, 4]))
        return {"picture": picture, "count": np.int64(5), "pair": pair, "word": "cabü"}


class Faulty(Plain):
    """Misbehaves at its third step, by the seed."""

    def __init__(self, marker: str = "") -> None:
        self._marker = Path(marker)
        self._seed = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seed = seed or 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        self._steps += 1
        if self._steps == 3:
            observation, reward = self._misbehave(observation, reward)
        return observation, reward, *rest  # type: ignore[return-value] # as Plain has it

    def _misbehave(self, observation: Any, reward: float) -> tuple[Any, float]:
        match self._seed:
            case 100:
                raise RuntimeError("the simulator broke")
            case 101 if not self._marker.exists():
                self._marker.touch()
                raise RuntimeError("the simulator broke once")
            case 102:
                hang()
            case 103:
                os._exit(3)
            case 104:
                reward = float("nan")
            case 106 if not self._marker.exists():
                os.kill(os.getpid(), signal.SIGSEGV)
            case 107 if not self._marker.exists():
                os.kill(os.getpid(), signal.SIGKILL)
            case 108 if self._attempts() < 1:
                os.kill(os.getpid(), signal.SIGKILL)
            case 105:
                observation = np.zeros(7, np.float32)
        return observation, reward

    def _attempts(self) -> int:
        """Count an attempt; return how many there were before."""
        with self._marker.open("ab") as file:
            file.write(b".")
            return file.tell() - 1


class Boundless(Plain):
    """Takes any number, and fails in its own way on large ones."""

    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, fails: str = "", large: float = 1e6) -> None:
        self._fails, self._large = fails, large

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with np.errstate(over="ignore"):
            observation, reward, *rest = super().step(action)
        if np.abs(action).max() > self._large:
            observation, reward = self._fail(observation, float(action[0]))
        return observation, reward, *rest  # type: ignore[return-value] # as Plain has it

    def _fail(self, observation: Any, large: float) -> tuple[Any, float]:
        match self._fails:
            case "raises":
                raise OverflowError("the numbers are too large")
            case "dies":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hangs":
                hang()
            case "gives infinity":
                return observation, float("inf") * large
            case "adds up to infinity":
                return observation, 1e308
            case "gives infinities of both signs":
                return observation, float("inf") * (1 if self.np_random.uniform() < 0.5 else -1)
            case "gives another shape":
                return np.zeros(7, np.float32), 0.0
        return observation * np.nan, 0.0


class Drawn(Plain):
    """Draws a bar as long as the episode so far, of an odd size; and misbehaves while it draws, where asked to."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, render_mode: str | None = None, fault: str = "") -> None:
        self.render_mode, self._fault, self._drawn = render_mode, fault, 0

    def render(self) -> Any:
        self._drawn += 1
        match self._fault:
            case "aborts" if self._drawn == 3:
                os.abort()
            case "raises":
                raise RuntimeError("the paint is dry")
            case "draws nothing":
                return None
            case "disturbs":
                self.np_random.uniform()
        picture = np.zeros((45, 61, 3), np.uint8)
        picture[:, : 10 * self._drawn] = 200
        return picture


class Graphic(Plain):
    """Observes graphs, which have no fixed size."""

    observation_space = spaces.Graph(spaces.Box(0.0, 1.0, (2,)), None)  # type: ignore[assignment] # other than Plain's


class Paired(Plain):
    """Pays two agents."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, *ended, info = super().step(action)
        return observation, np.zeros(2), *ended, info  # type: ignore[return-value] # other than Plain's


class Village:
    """Has several agents, and so another interface than Gymnasium's."""


class Edge(Plain):
    """A step costs one, or pays; two steps in a row to the side of 1 end the episode, for a fine."""

    action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, pays: float = -1.0, fine: float = 0.0) -> None:
        self._pays, self._fine, self._steps = pays, fine, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps = self._steps + 1 if action[0] == 1.0 else 0
        over = self._steps == 2
        return self._observe(), self._pays - self._fine * over, over, False, {}


for _simulator in (
    Plain,
    Rounding,
    Littering,
    Keeping,
    Chooser,
    Composite,
    Faulty,
    Boundless,
    Drawn,
    Edge,
    Graphic,
    Paired,
    Village,
):
    gymnasium.register(f"{_simulator.__name__}-v0", entry_point=_simulator)
gymnasium.register("Fleet-v0", vector_entry_point=gymnasium.vector.SyncVectorEnv)
