"""An environment that draws itself, on machines without a display.

Rendering must not change what is played: where a simulator's own does, it is undone here. Who wants proof compares the
trajectories; who wants a film encodes the pictures (``rollout/films``).

MuJoCo needs OpenGL, by EGL or OSMesa, and aborts its process where it asks for a second context without a display: one
process an environment.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from evopolicygym.core.errors import EnvironmentFault, UsageError
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.packs.interpreter import interpreter

Picture = np.ndarray[Any, np.dtype[np.uint8]]
WITHOUT_A_SCREEN = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
"""What pygame needs where there is neither a screen nor a loudspeaker."""
ONTO_NO_SCREEN = {"SDL_VIDEODRIVER": "offscreen", "OFFSCREEN_RENDERING": "1"}
"""What highway-env needs besides: with the driver ``dummy`` its pictures are black."""
AUTOMATIC = "enable_auto_render"
"""What highway-env sets when it is drawn once, to draw itself at every step of its physics: nobody sees those."""
MUJOCO_GL = "MUJOCO_GL"
WAYS = ("egl", "osmesa")
"""MuJoCo's ways to draw without a display, best first."""
TRIAL = """
import mujoco, os
model = mujoco.MjModel.from_xml_string("<mujoco/>")
renderer = mujoco.Renderer(model, 16, 16)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
os._exit(0)
"""
TRIAL_S = 120
DEFAULT_FPS = 30.0


class RenderedEnvironment(Environment):
    """An environment as it is played, which can also draw its present state."""

    def __init__(self, spec: EnvironmentSpec, size: tuple[int, int] | None = None) -> None:
        """Have it drawn at about a size (width, height) where it can; most have a size of their own."""
        drawn: dict[str, Any] = {"render_mode": "rgb_array"}
        if size and _by_mujoco(spec) and not spec.pack:  # a pack's simulators take their sizes in other words
            drawn |= {"width": size[0], "height": size[1]}
        try:
            super().__init__(replace(spec, arguments={**spec.arguments, **drawn}))
        except TypeError as error:
            if "render_mode" not in str(error):
                raise
            raise UsageError(f"{spec.id} takes no render_mode, so nothing draws it.") from error
        self._scene = _scene(self._simulator.unwrapped) if _by_mujoco(spec) else None

    @property
    def fps(self) -> float:
        """Steps a second at which it is meant to be watched; known after the first picture."""
        fps = (self._simulator.metadata or {}).get("render_fps")
        return float(fps) if fps else DEFAULT_FPS

    def picture(self) -> Picture:
        """Draw the present state: bytes of shape (height, width, 3); raise ``EnvironmentFault`` where it can't."""
        with self._scene.kept() if self._scene else nullcontext():
            drawn = self._simulator.render()
        if hasattr(self._simulator.unwrapped, AUTOMATIC):
            setattr(self._simulator.unwrapped, AUTOMATIC, False)
        if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint8 or drawn.ndim != 3 or drawn.shape[2] != 3:  # noqa: PLR2004 - red, green, blue
            found = f"an array {drawn.shape} of {drawn.dtype}" if isinstance(drawn, np.ndarray) else repr(drawn)[:80]
            raise EnvironmentFault(f"{self.spec.id} drew no picture of shape (height, width, 3) in bytes, but {found}.")
        return drawn


class _MujocoScene:
    """What rendering may change of a MuJoCo simulator, kept as it was."""

    def __init__(self, simulator: Any) -> None:  # noqa: ANN401 - has no common type
        self._simulator = simulator
        # Shadows and smoothed edges take nine tenths of the time where no graphics card helps.
        simulator.model.vis.quality.shadowsize = simulator.model.vis.quality.offsamples = 0
        mujoco = import_module("mujoco")
        self._copy, self._kept = mujoco.mj_copyData, mujoco.MjData(simulator.model)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the state: gymnasium-robotics moves a marker and has the dynamics computed anew for each picture."""
        model, data = self._simulator.model, self._simulator.data
        sites = model.site_pos.copy()
        self._copy(self._kept, model, data)
        try:
            yield
        finally:
            self._copy(data, model, self._kept)
            model.site_pos[:] = sites


def _scene(simulator: Any) -> _MujocoScene | None:  # noqa: ANN401 - has no common type
    """Return what is to be kept; None where the simulator hides it, or its MuJoCo is too old to copy it."""
    can_copy = hasattr(import_module("mujoco"), "mj_copyData")
    return _MujocoScene(simulator) if can_copy and hasattr(simulator, "model") else None


def _by_mujoco(spec: EnvironmentSpec) -> bool:
    return "mujoco" in spec.packages


def rendering_variables(spec: EnvironmentSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables under which a spec can be drawn here; a user's own ``MUJOCO_GL`` stands.

    Raises ``UsageError``, which names what to install, where it can't be.
    """
    python = interpreter(spec.pack)
    variables = WITHOUT_A_SCREEN | (ONTO_NO_SCREEN if "highway-env" in spec.packages else {})
    if not _by_mujoco(spec):
        return variables
    asked = environ.get(MUJOCO_GL)
    said = {}
    for way in (asked,) if asked else WAYS:
        said[way] = _tried(python, {**environ, **variables, MUJOCO_GL: way})
        if not said[way]:
            return {**variables, MUJOCO_GL: way}
    found = "; ".join(f"{MUJOCO_GL}={way}: {words}" for way, words in said.items())
    raise UsageError(
        f"{spec.name} is drawn by MuJoCo, which can't render here: {found}. On Debian and Ubuntu install libegl1 and "
        f"libgl1-mesa-dri (EGL by a software driver), or libosmesa6; docs/use/films.md tells of other systems."
    )


def _tried(python: str, environ: Mapping[str, str]) -> str:
    """Draw an empty scene in a process of its own, which it may kill; return what went wrong, or nothing."""
    try:
        done = subprocess.run(
            [python, "-P", "-c", TRIAL], env=environ, capture_output=True, timeout=TRIAL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no picture within {TRIAL_S} s"
    last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    return (last or f"its process ended with {done.returncode}") if done.returncode else ""
