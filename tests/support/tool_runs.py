"""Whole runs of command-line tools, real and unmodified, against a scripted model; and where the tools are found.

They are looked for on the PATH, in the directory that ``EVOPOLICYGYM_TOOLS`` names, and in ``.tools/``, where
``make tools`` puts them.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.conversation import Say, Shell
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.core.agent import AgentConfig
from model_proxies import REAL_KEY, VARIABLE
from players import GOOD
from whole_runs import Told, config, played

EDIT = f"cat > system/policy.py <<'END_OF_POLICY'\n{GOOD}END_OF_POLICY\n"
ENOUGH, DONE = "One submission may be enough.", "Nothing is left."
SCRIPT = (Shell(EDIT), Shell("./judge submit 0"), Say(ENOUGH), Shell("./judge submit 1"), Say(DONE))
"""A tool that gives up after a submission, and goes on when it is asked to."""


def found(program: str) -> str | None:
    """Return where a tool lies; None where it is not installed."""
    root = Path(os.environ.get("EVOPOLICYGYM_TOOLS") or Path(__file__).parents[2] / ".tools")
    places = [str(place) for place in (root, root / "bin", root / "node_modules" / ".bin")]
    return shutil.which(program, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))


def needs(program: str) -> pytest.MarkDecorator:
    """Return the mark of a test that a tool and bubblewrap must be there for."""
    if needs_bubblewrap.args[0]:
        return needs_bubblewrap
    return pytest.mark.skipif(not found(program), reason=f"{program} is not installed; make tools installs it")


def played_with(
    agent: str,
    program: str,
    model: ScriptedModel,
    runs: Path,
    level: str = "bubblewrap",
    *,
    budget: int = 2,
    effort: str = "",
    **options: int,
) -> Told:
    """Play a run on cartpole by a tool; the real key must stand in its variable."""
    given = {"program": program, "model_url": model.url, "model_key": VARIABLE, **options}
    asked = config(runs, budget=budget, isolation=level)
    return played(replace(asked, agent=AgentConfig(agent, "scripted", given, effort=effort)))


def key_in(told: Told) -> list[Path]:
    """Return the files of a record that hold the real key."""
    return [path for path, text in told.texts() if REAL_KEY in text]
