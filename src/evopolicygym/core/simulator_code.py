"""The code that makes an environment, as records name it: its modules, each with a hash of its files.

How it is found is described in ``environments/simulator_code.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SHOWN_DIGITS = 12
"""Of a hash, where it is shown."""
_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True)
class OtherCode:
    """A module whose code is not the same in two places."""

    module: str
    here: str
    there: str


def brief(code: str) -> str:
    """Return a module's code as it is shown: its hash cut short."""
    return _SHA256.sub(lambda found: found[0][:SHOWN_DIGITS], code)


def other_code(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[OtherCode, ...]:
    """Return the modules whose code differs, hashes cut short; none where a record doesn't name its code.

    Records from before code was hashed don't, and neither do those of environments that gymnasium alone makes.
    """
    if not here or not there:
        return ()
    pairs = {name: (here.get(name, "absent"), there.get(name, "absent")) for name in sorted(here.keys() | there.keys())}
    return tuple(OtherCode(name, brief(one), brief(two)) for name, (one, two) in pairs.items() if one != two)
