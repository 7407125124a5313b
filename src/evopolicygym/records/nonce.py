"""Whether a run has a board's nonce, and an experiment whose identity is bound to its secret.

A board publishes the identity of a contributor's experiment, then draws the nonce. Cases are derived from both, so that
the contributor can't choose them: the secret was fixed before the nonce was known.
"""

from pathlib import Path

from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.finding import Finding
from evopolicygym.core.text import printable
from evopolicygym.records import experiment

NONCE = "nonce"
UNCHECKED = "unchecked"


def nonce_finding(root: Path, opened: RunOpened, demanded: str = "") -> Finding | None:
    """Return whether a run has the demanded nonce, and an identity that is its secret's.

    Without a demand, a run without a nonce has no finding, and an unknown secret is no failure.
    """
    recorded = opened.nonce
    if not (recorded or demanded):
        return None
    if demanded and recorded != demanded:
        actual = f"nonce {printable(recorded)}" if recorded else "no nonce"
        return Finding(NONCE, ok=False, detail=f"expected nonce {demanded}, the run has {actual}")
    try:
        owner = experiment.of_run(root, opened)
    except UsageError:
        detail = "not checked: the secret is neither on this machine nor revealed"
        return Finding(NONCE, ok=not demanded, detail=detail, verdict=UNCHECKED)
    except EvoPolicyGymError as error:
        return Finding(NONCE, ok=False, detail=str(error))
    if not owner.is_bound:
        detail = f"the identity {opened.experiment} is not that of the experiment's secret, which was chosen later"
        return Finding(NONCE, ok=False, detail=detail)
    return Finding(NONCE, ok=True, detail=f"{recorded}, and the identity {opened.experiment} is that of the secret")
