"""All that can be said of a record without playing anything: the audit, its high-water mark, and the commitment.

The mark can be checked where the run was played, the commitment where the secret is known.
"""

from collections.abc import Iterator
from pathlib import Path

from evopolicygym.analysis.audit import audit
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.finding import Finding
from evopolicygym.records.reader import read_run
from evopolicygym.records.rollback_guard import FINDING, mark_finding
from evopolicygym.runs import experiment
from evopolicygym.runs.run import job_builder


def findings(root: Path) -> Iterator[Finding]:
    """Yield what was checked of a run's record; raise ``UsageError`` where there is no run."""
    found = list(audit(root))
    yield from found
    if not found[0].ok:
        return
    state = read_run(root).state
    yield mark_finding(root) or _without_mark(state.opened)
    try:
        job_builder(state, experiment.of_run(root, state.opened))
    except UsageError:
        yield Finding("commitment", ok=True, detail="not checked: the secret is neither on this machine nor revealed")
    except EvoPolicyGymError as error:
        yield Finding("commitment", ok=False, detail=str(error))
    else:
        yield Finding("commitment", ok=True, detail="the cases are those that the run committed to when it was opened")


def _without_mark(opened: RunOpened) -> Finding:
    """Return what is found of a run without a mark: its experiment may list the runs that it began here."""
    try:
        ledger = experiment.ledger_of(opened.experiment)
    except EvoPolicyGymError as error:
        return Finding(FINDING, ok=False, detail=str(error))
    if ledger is None or opened.time < ledger.since or _may_be_of_another_machine(opened, ledger):
        return Finding(
            FINDING, ok=True, detail="not checked: begun elsewhere, by another user, or before marks were kept"
        )
    known = "its mark was removed" if opened.run_id in ledger.runs else "it began no run of this id on this machine"
    return Finding(
        FINDING,
        ok=False,
        detail=f"the run's experiment began here, and {known}: the record was changed, or comes from where its secret "
        f"was copied to",
    )


def _may_be_of_another_machine(opened: RunOpened, ledger: experiment.Ledger) -> bool:
    return opened.run_id not in ledger.runs and experiment.is_shared(opened.experiment)
