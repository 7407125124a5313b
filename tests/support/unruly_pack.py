"""A pack whose simulators misbehave, laid without an index; what each does is in ``far_away/unruly.py``."""

import pytest

import own_pack
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.packs.installation import InstalledPack
from evopolicygym.runs.environment import resolve_environment

NAME = "unruly"
MISDEEDS = (
    *("Poisoning", "Meddling", "Hanging", "Segfaulting", "Exiting", "Raising", "Leaking", "Parenting", "Flooding"),
    "Closing",
)
IDS = ("Quiet-v0", *(f"{one}{when}-v0" for one in MISDEEDS for when in ("", "Early")))
LISTED = ", ".join(f'"{one}"' for one in own_pack.IDS)
FILE = own_pack.FILE.partition("[texts")[0].replace(LISTED, ", ".join(f'"{one}"' for one in IDS))


def lay(monkeypatch: pytest.MonkeyPatch, module: str = "unruly") -> InstalledPack:
    """Install the pack and have the catalog know it; return it. ``module`` registers its ids."""
    return own_pack.lay(monkeypatch, FILE.replace('"far_away"', f'"{module}"'), NAME)


def spec(gymnasium_id: str) -> EnvironmentSpec:
    """Return the spec of one of its tasks, as a run has it."""
    return resolve_environment(gymnasium_id, TaskText.TERSE)[0]
