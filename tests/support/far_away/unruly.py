"""Simulators of a pack that misbehave: each id in its own way, and only in cases that count, whose seed isn't 0."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import evopolicygym

FLOOD = b"x" * 999 + b"\n"
HELD: list[Any] = []
MENDED = Path(os.environ.get("XDG_DATA_HOME", "/nonexistent"), "mended")
"""Where it is there, nothing misbehaves any more."""
TEMPORARY = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - where workers have another
STATE = Path(os.environ.get("XDG_STATE_HOME", "/nonexistent"), "evopolicygym", "experiments")


def meddle() -> None:
    """Change what a process has one of."""
    np.random.seed(0)  # noqa: NPY002 - the state that all share
    np.seterr(all="raise")
    np.set_printoptions(precision=1)
    gone = TEMPORARY / "gone"
    gone.mkdir(exist_ok=True)
    os.chdir(gone)
    gone.rmdir()
    os.environ.clear()


def poison() -> None:
    """Try to change what a later run is played with, to read secrets and to reach the network; print what succeeds."""
    pack = Path(sys.prefix)
    places = [pack, *pack.glob("lib/*/site-packages"), pack.parent, pack.parents[1], Path(evopolicygym.__path__[0])]
    for place in places:
        _tell(f"wrote into {place}", lambda place=place: (place / "poison.pth").write_text("import poison"))
    _tell("removed what is installed", (pack.parent / "installed.json").unlink)
    _tell("read a secret", lambda: next(STATE.iterdir()))
    _tell("reached the network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=1))
    _tell("mounted", lambda: subprocess.run(["/bin/mount", "-o", "remount,rw", str(pack.parents[1])], check=True))
    os.write(1, f"tried at {len(places)} places\n".encode())


def _tell(what: str, attempt: Callable[[], Any]) -> None:
    try:
        attempt()
    except (OSError, StopIteration, subprocess.CalledProcessError):
        return
    os.write(1, f"REACHED: {what}\n".encode())


def leak() -> None:
    """Take memory until there is none: a terabyte, none of which is touched."""
    HELD.extend(np.empty(1 << 30, np.uint8) for _ in range(1 << 10))


def leave_children() -> None:
    """Leave processes behind, one of them in a session of its own."""
    for session in (False, True):
        subprocess.Popen(["/bin/sleep", "600"], start_new_session=session)


MISDEEDS: dict[str, Callable[[], object]] = {
    "Poisoning": poison,
    "Meddling": meddle,
    "Hanging": lambda: time.sleep(600),
    "Segfaulting": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "Exiting": lambda: os._exit(3),
    "Raising": lambda: {}[1],
    "Leaking": leak,
    "Parenting": leave_children,
    "Flooding": lambda: [os.write(number, FLOOD) for number in (1, 2) for _ in range(2000)],
    "Closing": lambda: os.closerange(3, 256),
}
LONGEST_SEED = (1 << 128) - 1
"""The seed that a worker tries once, before any case, to learn how many bits the simulator takes."""


class Unruly(gymnasium.Env[Any, Any]):
    """Three steps, each paid with 1."""

    observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self, misdeed: str = "", construction: bool = False) -> None:  # noqa: FBT001, FBT002 - arguments of make
        self._misdeed, self._steps = misdeed, 0
        if construction:
            MISDEEDS[misdeed]()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        is_case = seed is not None and 0 < seed < LONGEST_SEED
        if is_case and self._misdeed and not MENDED.exists():
            MISDEEDS[self._misdeed]()
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002 - none matters
        self._steps += 1
        return self._observe(), 1.0, self._steps == 3, False, {}

    def _observe(self) -> Any:
        return np.array([self._steps + self.np_random.random()], np.float32)


gymnasium.register("Quiet-v0", Unruly, max_episode_steps=20)
for _name in MISDEEDS:
    gymnasium.register(f"{_name}-v0", Unruly, max_episode_steps=20, kwargs={"misdeed": _name})
    gymnasium.register(
        f"{_name}Early-v0", Unruly, max_episode_steps=20, kwargs={"misdeed": _name, "construction": True}
    )
