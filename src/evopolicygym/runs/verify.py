"""All that can be said of a record without playing anything: the audit, its high-water mark, and the commitment.

The mark can be checked where the run was played, the commitment where the secret is known.
"""

from collections.abc import Iterator
from pathlib import Path

from evopolicygym.analysis.audit import audit
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.finding import Finding
from evopolicygym.records.reader import read_run
from evopolicygym.runs import experiment, marks
from evopolicygym.runs.run import dealer


def findings(root: Path) -> Iterator[Finding]:
    """Yield what was checked of a run's record; raise ``UsageError`` where there is no run."""
    found = list(audit(root))
    yield from found
    if not found[0].ok:
        return
    yield marks.finding(root)
    state = read_run(root).state
    try:
        dealer(state, experiment.of_run(root, state.opened))
    except UsageError:
        yield Finding("commitment", ok=True, detail="not checked: the secret is neither on this machine nor revealed")
    except EvoPolicyGymError as error:
        yield Finding("commitment", ok=False, detail=str(error))
    else:
        yield Finding("commitment", ok=True, detail="the cases are those that the run committed to when it was opened")
