"""``evopolicygym.verify``: checks of records. Only with ``replay`` does it load what plays."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicygym.core.check_result import REPLAY, CheckResult, ReplayVerdict, ReplayWatch, unwatched
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.text import counted, printable
from evopolicygym.records.bundle import BundleIndex, is_bundle, unpack
from evopolicygym.records.checked import candidates
from evopolicygym.records.nonce import NONCE, nonce_finding
from evopolicygym.records.reader import Problem, find_run, read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.records.verify import UNREADABLE, findings

if TYPE_CHECKING:
    from evopolicygym.api.play.replay import Replayer

BUNDLE = "bundle"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked of a run's record."""

    path: Path
    findings: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the findings that don't hold."""
        return tuple(finding.name for finding in self.findings if not finding.ok)

    @property
    def is_unreadable(self) -> bool:
        """Whether a record can't be read at all."""
        return any(finding.verdict == UNREADABLE for finding in self.findings)

    @property
    def is_rounding(self) -> bool:
        """Whether everything holds but that a replay differs by no more than rounding."""
        return not self.ok and all(
            finding.ok or finding.verdict == ReplayVerdict.ROUNDING.value for finding in self.findings
        )

    def __iter__(self) -> Iterator[CheckResult]:
        return iter(self.findings)

    def __repr__(self) -> str:
        return f"<Verification of {self.path}: {'all holds' if self.ok else 'failed: ' + ', '.join(self.failed)}>"


def verify(  # noqa: PLR0913 - each is an argument of its own
    run: str | Path = "latest",
    *,
    replay: bool = False,
    agent: bool = False,
    model_url: str = "",
    model_key: str = "",
    workers: int | None = None,
    executor: str = LOCAL,
    address: str = "",
    isolation: str = AUTO,
    trust: bool = False,
    nonce: str = "",
    runs: str | Path = DEFAULT_RUNS,
    follow: ReplayWatch = unwatched,
    on_warning: Callable[[str], object] = warnings.warn,
) -> Verification:
    """Check a run's record: hash chain, budget, checkpoints, feedback, score, commitment.

    Args:
        run: Its directory, its id or the beginning of it, or ``"latest"``; or a bundle, or a directory with runs below
            it, all runs of which are checked.
        replay: Whether to play validation and held-out again, compare every trajectory, and select again.
        agent: Whether to send the model of a replayed run what it was asked, too, and compare every answer.
        model_url: The server that is asked again; by default the recorded one.
        model_key: The environment variable that holds its key.
        workers: How many episodes play at once in a replay; None for one each core.
        executor: Where they play: ``"local"``, ``"ray"`` or ``"package.module:Class"``.
        address: The executor's cluster.
        isolation: The level at which policies play now, whatever the record says.
        trust: Whether to run a simulator that only the record names, with your rights.
        nonce: The nonce that every run must have, with an experiment whose identity is that of its secret.
        runs: Where runs are looked for by id.
        follow: Wraps what is played again, to show progress.
        on_warning: Called with each warning, such as that fewer workers are started.

    Returns:
        The findings; ``ok`` where all hold.

    Raises:
        UsageError: There is no such run, or the agent alone is to be played again.
    """
    if (agent or model_url or model_key) and not (agent and replay):
        given = "agent" if agent else "model_url" if model_url else "model_key"
        raise UsageError(f"Invalid {given}: expected it with replay and agent (--replay --agent).")
    root = find_run(Path(run), Path(runs))
    replayer = None
    if replay:
        from evopolicygym.api.play.replay import open_replayer

        refuse_release(root)
        asked = (model_url, model_key) if agent else None
        replayer = open_replayer(workers, executor, address, isolation, trust, follow, on_warning, asked)
    findings, roots = list[CheckResult](), [root]
    if is_bundle(root):
        bundle = unpack(root)
        findings.append(CheckResult(BUNDLE, ok=True, detail=_bundle_detail(bundle.index)))
        roots = list(bundle.roots)
    elif root.is_dir() and (below := list(candidates(root))):
        roots = [item for item in below if isinstance(item, Path)]
        problems = [item for item in below if isinstance(item, Problem)]
        findings += [CheckResult(str(item.root), ok=False, detail=item.reason, verdict=UNREADABLE) for item in problems]
    if len(roots) == 1:
        findings += _findings(roots[0], nonce, replayer)
    for each in roots if len(roots) > 1 else ():
        of_run = _findings_of_one(each, nonce, replayer)
        findings += [replace(finding, name=f"{each.name} {finding.name}") for finding in of_run]
    return Verification(root, tuple(findings))


def _findings_of_one(root: Path, nonce: str, replayer: "Replayer | None") -> list[CheckResult]:
    """Return the findings of one of several runs: if it can't be played again, that is a finding, not an error."""
    try:
        return _findings(root, nonce, replayer)
    except (UsageError, RecordError) as error:
        return [*_findings(root, nonce, None), CheckResult(REPLAY, ok=False, detail=str(error))]


def _findings(root: Path, nonce: str, replayer: "Replayer | None") -> list[CheckResult]:
    audited = list(findings(root))
    if nonce and len(audited) > 1:  # else the event log is broken
        demanded = nonce_finding(root, read_run(root).state.opened, nonce)
        audited = [finding for finding in audited if finding.name != NONCE] + ([demanded] if demanded else [])
    if replayer is None or not all(finding.ok or finding.settled_by_replay for finding in audited):
        return audited
    return replayer.settle(root, audited)


def _bundle_detail(index: BundleIndex) -> str:
    detail = f"{counted(len(index.files), 'file')} of {counted(len(index.runs), 'run')} as bundle.json lists them"
    for experiment in index.experiments:
        name = printable(experiment.name)
        if experiment.began is None:
            detail += f"; how many runs {name} began is not said"
        else:
            detail += f"; {len(experiment.missing)} of {experiment.began} runs that {name} began are missing"
    return detail
