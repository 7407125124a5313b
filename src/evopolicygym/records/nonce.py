"""Whether a run has a board's nonce, and an experiment whose identity is bound to its secret.

A board publishes the identity of a contributor's experiment, then draws the nonce. Cases are derived from both, so that
the contributor can't choose them: the secret was fixed before the nonce was known.
"""

from pathlib import Path

from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.text import printable
from evopolicygym.records import experiment as experiments

NONCE = "nonce"
UNCHECKED = "unchecked"


def nonce_finding(root: Path, opened: RunOpened, demanded: str = "") -> CheckResult | None:
    """Return whether a run has the demanded nonce, and an identity that is its secret's.

    Without a demand, a run without a nonce has no finding, and an unknown secret is no failure.
    """
    recorded = opened.nonce
    if not (recorded or demanded):
        return None
    if demanded and recorded != demanded:
        actual = f"nonce {printable(recorded)}" if recorded else "no nonce"
        return CheckResult(NONCE, ok=False, detail=f"expected nonce {demanded}, the run has {actual}")
    try:
        experiment = experiments.of_run(root, opened)
    except UsageError:
        detail = "not checked: the secret is neither on this machine nor revealed"
        return CheckResult(NONCE, ok=not demanded, detail=detail, verdict=UNCHECKED)
    except EvoPolicyGymError as error:
        return CheckResult(NONCE, ok=False, detail=str(error))
    if not experiment.is_bound:
        detail = f"the identity {opened.experiment} is not that of the experiment's secret, which was chosen later"
        return CheckResult(NONCE, ok=False, detail=detail)
    return CheckResult(NONCE, ok=True, detail=f"{recorded}, and the identity {opened.experiment} is that of the secret")
