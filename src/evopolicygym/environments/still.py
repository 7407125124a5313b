"""A still: one picture of an environment after some random actions, drawn on the Python that plays it.

It serves to show what an environment looks like. Films of what was played are made elsewhere (``rollout/films``). Run
as a program, this module reads ``{"spec": …, "path": …, "steps": …}`` from standard input, and writes the picture as
numpy has it to the descriptor that its argument names.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from io import BytesIO
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np

from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.spaces import sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.rendering import Picture, rendering_variables
from evopolicygym.packs.interpreter import command

PATIENCE_S = 120.0
LAST_WORDS = 300
SEED = 1


class StillEnvironment(Environment):
    """An environment that can draw itself, by whatever its simulator has for that."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        """Make it; its simulator decides how large it draws."""
        super().__init__(replace(spec, arguments={**spec.arguments, "render_mode": "rgb_array"}))

    def picture(self) -> Any:  # noqa: ANN401 - whatever a simulator draws
        """Return what it draws."""
        return self._simulator.render()


def still(spec: EnvironmentSpec, steps: int) -> Picture:
    """Return a picture of shape (height, width, 3); raise ``EnvironmentFault`` where the simulator draws none."""
    ours, theirs = os.pipe()
    with TemporaryDirectory() as place, TemporaryFile() as said, os.fdopen(ours, "rb") as answer:
        line = command(spec.pack, "evopolicygym.environments.still", str(theirs))
        temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), place)
        variables = {**os.environ, **rendering_variables(spec, os.environ), **temporary}
        asked = {"spec": asdict(spec), "path": [] if spec.pack else sys.path, "steps": steps}
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=said, stderr=said, pass_fds=[theirs], env=variables, cwd=place
        )
        os.close(theirs)
        if process.stdin:
            process.stdin.write(json.dumps(asked).encode())
            process.stdin.close()
        drawn = answer.read()
        process.wait(PATIENCE_S)
        if not drawn:
            said.seek(0)
            words = said.read().decode("utf-8", "replace").strip()[-LAST_WORDS:]
            raise EnvironmentFault(f"{spec.id} drew no picture: {words}")
    return np.asarray(np.load(BytesIO(drawn)), np.uint8)


def _drawn(spec: EnvironmentSpec, steps: int) -> Picture:
    environment = StillEnvironment(replace(spec, max_steps=steps + 1))
    environment.reset(SEED)
    actions, space = np.random.default_rng(SEED), environment.action_space
    for _ in range(steps):
        _, _, terminated, truncated, _ = environment.step(sample(space, actions))
        if terminated or truncated:
            break
    drawn = environment.picture()
    if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint8 or drawn.ndim != 3 or drawn.shape[2] != 3:  # noqa: PLR2004 - red, green, blue
        raise EnvironmentFault(f"{spec.id} draws no bytes of shape (height, width, 3), but {str(drawn)[:80]!r}.")
    return drawn


def _main(descriptor: int) -> None:
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"] or sys.path
    content = BytesIO()
    np.save(content, _drawn(EnvironmentSpec(**{**asked["spec"], "success": None}), asked["steps"]))
    with os.fdopen(descriptor, "wb") as answer:
        answer.write(content.getvalue())
    os._exit(0)  # a simulator may crash while it is taken apart


if __name__ == "__main__":
    _main(int(sys.argv[1]))
