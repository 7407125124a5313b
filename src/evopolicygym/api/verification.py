"""``evopolicygym.verify``."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.finding import Finding
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_names import named_run
from evopolicygym.runs.executor import capped
from evopolicygym.runs.replay import Replayed, Verdict, checkpoints_of, verdict_of
from evopolicygym.runs.replay import replay as play_again
from evopolicygym.runs.revisit import ReplayMeans
from evopolicygym.runs.verify import findings

REPLAY = "replay"
HIDDEN = (Split.VALIDATION, Split.HELD_OUT)
"""Splits that a replay plays, in this order."""
Watch = Callable[[Iterable[Replayed], int], Iterable[Replayed]]
"""Passes on what is played again, of so many cases, and may show how far it is."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked of a run's record."""

    path: Path
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the findings that don't hold."""
        return tuple(one.name for one in self.findings if not one.ok)

    @property
    def is_rounding(self) -> bool:
        """Whether everything holds but that a replay differs by no more than rounding."""
        return self.failed == (REPLAY,) and self.findings[-1].verdict == Verdict.ROUNDING.value

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __repr__(self) -> str:
        return f"<Verification of {self.path}: {'all holds' if self.ok else 'failed: ' + ', '.join(self.failed)}>"


def verify(  # noqa: PLR0913 - each is an argument of its own
    run: str | Path = "latest",
    *,
    replay: bool = False,
    workers: int | None = None,
    executor: str = LOCAL,
    address: str = "",
    isolation: str = AUTO,
    trust: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
    watch: Watch = lambda played, _total: played,
    on_note: Callable[[str], object] = warnings.warn,
) -> Verification:
    """Check a run's record: hash chain, budget, checkpoints, feedback, score, commitment.

    Args:
        run: Its directory, its id or the beginning of it, or ``"latest"``.
        replay: Whether to play validation and held-out again, compare every trajectory, and select again.
        workers: How many episodes play at once in a replay; None for one each core.
        executor: Where they play: ``"local"``, ``"ray"`` or ``"package.module:Class"``.
        address: The executor's cluster.
        isolation: The level at which policies play now, whatever the record says.
        trust: Whether to run a simulator that only the record names, with your rights.
        runs_directory: Where runs are looked for by id.
        watch: Wraps what is played again, to show progress.
        on_note: Called with each note for a person, such as that fewer workers are started.

    Returns:
        The findings; ``ok`` where all hold.

    Raises:
        UsageError: There is no such run.
    """
    root = named_run(Path(run), Path(runs_directory))
    audited = list(findings(root))
    if not replay or not all(one.ok or one.settled_by_replay for one in audited):
        return Verification(root, tuple(audited))
    state = read_run(root).state
    total = sum(len(checkpoints_of(state, split)) * state.cases(split) for split in HIDDEN)
    means = ReplayMeans(capped(workers, executor, on_note), executor, address, isolation, trust)
    played = list(watch(play_again(root, means, HIDDEN), total))
    verdict, detail = verdict_of(state, played)
    settled = [_settled(one) if verdict is not Verdict.DIFFERENT else one for one in audited]
    again = Finding(REPLAY, verdict is Verdict.SAME, f"{detail}{_how_played(played)}", verdict=verdict.value)
    return Verification(root, (*settled, again))


def _settled(finding: Finding) -> Finding:
    if not finding.settled_by_replay:
        return finding
    return replace(finding, ok=True, detail="its files were left out of this record; the replay stands for them")


def _how_played(played: Sequence[Replayed]) -> str:
    if not played:
        return ""
    versions = next((one.other_versions for one in played), ())
    others = f"; under other versions: {', '.join(versions)}" if versions else ""
    return f"; played at isolation {played[0].isolation}{others}"
