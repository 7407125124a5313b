"""Rendering of environments on machines without a display: frames of a running environment, and single stills.

Rendering must not change the trajectory: changes by a simulator's own renderer are undone. Frames are encoded as films
in ``rollout/films``.

MuJoCo needs OpenGL, by EGL or OSMesa, and aborts its process if it creates a second context without a display: each
environment needs a process.

Run as a program, this module reads ``{"spec": …, "path": …, "steps": …}`` from standard input, and writes a still as a
``.npy`` file to the descriptor in its argument.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from importlib import import_module
from io import BytesIO
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np

from evopolicygym.core.errors import EnvironmentFault, UsageError
from evopolicygym.core.spaces import sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment, registered_class
from evopolicygym.packs.installation import command, interpreter

Picture = np.ndarray[Any, np.dtype[np.uint8]]
NO_SCREEN = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
"""Environment variables of pygame without a screen and a sound card."""
NO_SCREEN_HIGHWAY = {"SDL_VIDEODRIVER": "offscreen", "OFFSCREEN_RENDERING": "1"}
"""Environment variables for highway-env, whose pictures are black with the driver ``dummy``."""
AUTO_RENDER = "enable_auto_render"
"""Attribute that highway-env sets at the first picture, to draw at every physics step; reset after each picture."""
MUJOCO_GL = "MUJOCO_GL"
MUJOCO_BACKENDS = ("egl", "osmesa")
"""MuJoCo's rendering backends without a display, best first."""
TRIAL = """
import mujoco, os
model = mujoco.MjModel.from_xml_string("<mujoco/>")
renderer = mujoco.Renderer(model, 16, 16)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
os._exit(0)
"""
TRIAL_S = 120
RENDER_MODE = "rgb_array"
"""The only render mode: simulators draw into an array, no window is opened."""


class RenderedEnvironment(Environment):
    """An environment that can also render its current state."""

    def __init__(self, spec: EnvironmentSpec, size: tuple[int, int] | None = None, world_seed: int = 0) -> None:
        """Request a picture size (width, height); most simulators ignore it."""
        options: dict[str, Any] = {"render_mode": RENDER_MODE}
        if size and _uses_mujoco(spec) and not spec.pack:  # a pack's simulators name these arguments differently
            options |= {"width": size[0], "height": size[1]}
        try:
            super().__init__(replace(spec, arguments={**spec.arguments, **options}), world_seed)
        except TypeError as error:
            if "render_mode" not in str(error):
                raise
            raise UsageError(f"{spec.id} takes no render_mode, so it can't be rendered.") from error
        except Exception as error:
            _refuse_modes(spec, registered_class(spec), error)
            raise
        _refuse_modes(spec, self._simulator)
        self._scene = _scene(self._simulator.unwrapped) if _uses_mujoco(spec) else None

    def picture(self) -> Picture:
        """Return a picture as uint8 of shape (height, width, 3); raise ``EnvironmentFault`` if it can't be rendered.

        Of a picture with transparency only the colours are kept; one without colours becomes gray.
        """
        with self._scene.preserve() if self._scene else nullcontext():
            picture = self._simulator.render()
        if hasattr(self._simulator.unwrapped, AUTO_RENDER):
            setattr(self._simulator.unwrapped, AUTO_RENDER, False)
        return _check_picture(picture, self.spec)


def _refuse_modes(spec: EnvironmentSpec, simulator: object, error: Exception | None = None) -> None:
    """Raise ``UsageError`` if a simulator says that it has render modes, and not the one that draws into an array."""
    modes = (getattr(simulator, "metadata", None) or {}).get("render_modes") or ()
    if modes and RENDER_MODE not in modes:
        raise UsageError(
            f"{spec.id} can't be rendered: expected the render mode {RENDER_MODE!r}, got {', '.join(map(str, modes))} "
            f"in its metadata. A film needs pictures, which other modes don't return."
        ) from error


def _check_picture(picture: Any, spec: EnvironmentSpec) -> Picture:  # noqa: ANN401 - whatever a simulator renders
    """Return a picture in red, green and blue; raise ``EnvironmentFault`` if it is none."""
    if isinstance(picture, np.ndarray) and picture.dtype == np.uint8:
        match picture.shape:
            case (_, _, 3):
                return picture
            case (_, _, 4):  # the last is transparency
                return np.ascontiguousarray(picture[:, :, :3])
            case (height, width) | (height, width, 1):
                return np.repeat(picture.reshape(height, width, 1), 3, axis=2)
    actual = f"an array {picture.shape} of {picture.dtype}" if isinstance(picture, np.ndarray) else repr(picture)[:80]
    raise EnvironmentFault(
        f"{spec.id} drew an invalid picture: expected uint8 of shape (height, width, 3), got {actual}."
    )


class _MujocoScene:
    """Saves and restores the state of a MuJoCo simulator that rendering may change."""

    def __init__(self, simulator: Any) -> None:  # noqa: ANN401 - has no common type
        self._simulator = simulator
        # Shadows and antialiasing take 90 % of the time without a GPU.
        simulator.model.vis.quality.shadowsize = simulator.model.vis.quality.offsamples = 0
        mujoco = import_module("mujoco")
        self._copy, self._saved = mujoco.mj_copyData, mujoco.MjData(simulator.model)

    @contextmanager
    def preserve(self) -> Iterator[None]:
        """Restore the state afterwards: gymnasium-robotics moves a marker and recomputes dynamics."""
        model, data = self._simulator.model, self._simulator.data
        sites = model.site_pos.copy()
        self._copy(self._saved, model, data)
        try:
            yield
        finally:
            self._copy(data, model, self._saved)
            model.site_pos[:] = sites


def _scene(simulator: Any) -> _MujocoScene | None:  # noqa: ANN401 - has no common type
    """Return the scene to preserve; None if the simulator hides it or its MuJoCo can't copy it."""
    can_copy = hasattr(import_module("mujoco"), "mj_copyData")
    return _MujocoScene(simulator) if can_copy and hasattr(simulator, "model") else None


def _uses_mujoco(spec: EnvironmentSpec) -> bool:
    return "mujoco" in spec.packages


def rendering_variables(spec: EnvironmentSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables with which a spec can be rendered; the user's ``MUJOCO_GL`` has precedence.

    Raises ``UsageError``, which names what to install, if it can't be rendered.
    """
    python = interpreter(spec.pack)
    variables = NO_SCREEN | (NO_SCREEN_HIGHWAY if "highway-env" in spec.packages else {})
    if not _uses_mujoco(spec):
        return variables
    chosen = environ.get(MUJOCO_GL)
    errors = {}
    for backend in (chosen,) if chosen else MUJOCO_BACKENDS:
        errors[backend] = _try_rendering(python, {**environ, **variables, MUJOCO_GL: backend})
        if not errors[backend]:
            return {**variables, MUJOCO_GL: backend}
    reasons = "; ".join(f"{MUJOCO_GL}={backend}: {words}" for backend, words in errors.items())
    raise UsageError(
        f"{spec.name} is drawn by MuJoCo, which can't render here: {reasons}. On Debian and Ubuntu install libegl1 and "
        f"libgl1-mesa-dri (EGL by a software driver), or libosmesa6; for other systems see docs/use/films.md."
    )


def _try_rendering(python: str, environ: Mapping[str, str]) -> str:
    """Render an empty scene in a separate process, which may crash; return the error, or an empty string."""
    try:
        trial = subprocess.run(
            [python, "-P", "-c", TRIAL], env=environ, capture_output=True, timeout=TRIAL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no picture within {TRIAL_S} s"
    last = trial.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    return (last or f"its process ended with {trial.returncode}") if trial.returncode else ""


STILL_S = 120.0
ERROR_CHARACTERS = 300
SEED = 1


class StillEnvironment(Environment):
    """An environment with the render mode ``rgb_array``, in its simulator's own size."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(replace(spec, arguments={**spec.arguments, "render_mode": RENDER_MODE}))

    def picture(self) -> Any:  # noqa: ANN401 - whatever a simulator draws
        """Return the simulator's picture, unchecked."""
        return self._simulator.render()


def render_still(spec: EnvironmentSpec, steps: int) -> Picture:
    """Return a picture of shape (height, width, 3); raise ``EnvironmentFault`` if the simulator draws none."""
    reader, writer = os.pipe()
    with TemporaryDirectory() as directory, TemporaryFile() as output, os.fdopen(reader, "rb") as answer:
        line = command(spec.pack, "evopolicygym.environments.rendering", str(writer))
        temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), directory)
        variables = {**os.environ, **rendering_variables(spec, os.environ), **temporary}
        request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path, "steps": steps}
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[writer], env=variables, cwd=directory
        )
        os.close(writer)
        if process.stdin:
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        picture = answer.read()
        process.wait(STILL_S)
        if not picture:
            output.seek(0)
            words = output.read().decode("utf-8", "replace").strip()[-ERROR_CHARACTERS:]
            raise EnvironmentFault(f"{spec.id} drew no picture: {words}")
    return np.asarray(np.load(BytesIO(picture)), np.uint8)


def _render_still(spec: EnvironmentSpec, steps: int) -> Picture:
    environment = StillEnvironment(replace(spec, max_steps=steps + 1))
    environment.reset(SEED)
    actions, space = np.random.default_rng(SEED), environment.action_space
    for _ in range(steps):
        _, _, terminated, truncated, _ = environment.step(sample(space, actions))
        if terminated or truncated:
            break
    return _check_picture(environment.picture(), spec)


def _main(descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    content = BytesIO()
    np.save(content, _render_still(EnvironmentSpec(**{**request["spec"], "success": None}), request["steps"]))
    with os.fdopen(descriptor, "wb") as answer:
        answer.write(content.getvalue())
    os._exit(0)  # skips teardown, in which a simulator may crash


if __name__ == "__main__":
    _main(int(sys.argv[1]))
