"""``evopolicygym.verify``, ``post_hoc`` and the checks of parts that users write."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evopolicygym.api import accept_old_names
from evopolicygym.core.cases import Split
from evopolicygym.core.finding import Finding
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.text import counted, printable
from evopolicygym.records.bundle import BundleIndex, is_bundle, unpack
from evopolicygym.records.checked import candidates, open_usable_runs
from evopolicygym.records.nonce import NONCE, nonce_finding
from evopolicygym.records.reader import Places, Problem, find_places, find_run, read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.records.rollback_guard import keep_replayed
from evopolicygym.records.verify import UNREADABLE, findings
from evopolicygym.runs.config import absolutize_paths
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.runs.replay import (
    PostHocResult,
    ReplayedCase,
    ReplayOptions,
    Verdict,
    checkpoints_of,
    play_post_hoc,
    verdict_of,
)
from evopolicygym.runs.replay import replay as play_again

REPLAY, BUNDLE = "replay", "bundle"
HIDDEN = (Split.VALIDATION, Split.HELD_OUT)
"""Splits that a replay plays, in this order."""
Watch = Callable[[Iterable[ReplayedCase], int], Iterable[ReplayedCase]]
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
        return tuple(finding.name for finding in self.findings if not finding.ok)

    @property
    def is_unreadable(self) -> bool:
        """Whether a record can't be read at all."""
        return any(finding.verdict == UNREADABLE for finding in self.findings)

    @property
    def is_rounding(self) -> bool:
        """Whether everything holds but that a replay differs by no more than rounding."""
        return not self.ok and all(finding.ok or finding.verdict == Verdict.ROUNDING.value for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __repr__(self) -> str:
        return f"<Verification of {self.path}: {'all holds' if self.ok else 'failed: ' + ', '.join(self.failed)}>"


@accept_old_names(on_note="on_warning")
def verify(  # noqa: PLR0913 - each is an argument of its own
    run: str | Path = "latest",
    *,
    replay: bool = False,
    workers: int | None = None,
    executor: str = LOCAL,
    address: str = "",
    isolation: str = AUTO,
    trust: bool = False,
    nonce: str = "",
    runs_directory: str | Path = DEFAULT_RUNS,
    watch: Watch = lambda played, _total: played,
    on_warning: Callable[[str], object] = warnings.warn,
) -> Verification:
    """Check a run's record: hash chain, budget, checkpoints, feedback, score, commitment.

    Args:
        run: Its directory, its id or the beginning of it, or ``"latest"``; or a bundle, or a directory with runs below
            it, all runs of which are checked.
        replay: Whether to play validation and held-out again, compare every trajectory, and select again.
        workers: How many episodes play at once in a replay; None for one each core.
        executor: Where they play: ``"local"``, ``"ray"`` or ``"package.module:Class"``.
        address: The executor's cluster.
        isolation: The level at which policies play now, whatever the record says.
        trust: Whether to run a simulator that only the record names, with your rights.
        nonce: The nonce that every run must have, with an experiment whose identity is that of its secret.
        runs_directory: Where runs are looked for by id.
        watch: Wraps what is played again, to show progress.
        on_warning: Called with each warning, such as that fewer workers are started.

    Returns:
        The findings; ``ok`` where all hold.

    Raises:
        UsageError: There is no such run.
    """
    root = find_run(Path(run), Path(runs_directory))
    if replay:
        refuse_release(root)
    means = (
        ReplayOptions(cap_workers(workers, executor, on_warning), executor, address, isolation, trust)
        if replay
        else None
    )
    found, roots = list[Finding](), [root]
    if is_bundle(root):
        bundle = unpack(root)
        found.append(Finding(BUNDLE, ok=True, detail=_bundle_detail(bundle.index)))
        roots = list(bundle.roots)
    elif root.is_dir() and (below := list(candidates(root))):
        roots = [item for item in below if isinstance(item, Path)]
        problems = [item for item in below if isinstance(item, Problem)]
        found += [Finding(str(item.root), ok=False, detail=item.reason, verdict=UNREADABLE) for item in problems]
    for each in roots:
        of_run = f"{each.name} " if len(roots) > 1 else ""
        found += [replace(finding, name=f"{of_run}{finding.name}") for finding in _findings(each, means, watch, nonce)]
    return Verification(root, tuple(found))


def _findings(root: Path, means: ReplayOptions | None, watch: Watch, nonce: str) -> list[Finding]:
    audited = list(findings(root))
    if nonce and len(audited) > 1:  # else the event log is broken
        demanded = nonce_finding(root, read_run(root).state.opened, nonce)
        audited = [finding for finding in audited if finding.name != NONCE] + ([demanded] if demanded else [])
    if means is None or not all(finding.ok or finding.settled_by_replay for finding in audited):
        return audited
    record = read_run(root)
    state = record.state
    total = sum(len(checkpoints_of(state, split)) * state.cases(split) for split in HIDDEN)
    played = list(watch(play_again(root, means, HIDDEN), total))
    verdict, detail = verdict_of(state, played)
    if verdict is Verdict.SAME:
        keep_replayed(record)
    settled = [_settled(finding) if verdict is not Verdict.DIFFERENT else finding for finding in audited]
    again = Finding(REPLAY, verdict is Verdict.SAME, f"{detail}{_how_played(played)}", verdict=verdict.value)
    return [*settled, again]


def _bundle_detail(index: BundleIndex) -> str:
    said = f"{counted(len(index.files), 'file')} of {counted(len(index.runs), 'run')} as bundle.json lists them"
    for experiment in index.experiments:
        name = printable(experiment.name)
        if experiment.began is None:
            said += f"; how many runs {name} began is not said"
        else:
            said += f"; {len(experiment.missing)} of {experiment.began} runs that {name} began are missing"
    return said


def _settled(finding: Finding) -> Finding:
    if not finding.settled_by_replay:
        return finding
    return replace(finding, ok=True, detail="its files were left out of this record; the replay stands for them")


def _how_played(played: Sequence[ReplayedCase]) -> str:
    if not played:
        return ""
    versions = next((replayed.other_versions for replayed in played), ())
    others = f"; under other versions: {', '.join(versions)}" if versions else ""
    return f"; played at isolation {played[0].isolation}{others}"


def post_hoc(
    runs: Places = "latest",
    *,
    workers: int | None = None,
    isolation: str = AUTO,
    trust: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
    on_episode: Callable[[], object] = lambda: None,
) -> dict[Path, PostHocResult]:
    """Play the held-out cases with every checkpoint of finished runs; scores stay as they are.

    What was played is kept in ``post_hoc.json`` of each run, and is not played again. ``diagnose`` then measures how
    much better another checkpoint would have been.

    Args:
        runs: Runs, or directories with runs below.
        workers: How many episodes play at once; None for one each core.
        isolation: The isolation at which policies play now, whatever the record says.
        trust: Whether to run a simulator that only the record names, with your rights.
        runs_directory: Where runs are looked for by id.
        on_episode: Called after each episode.

    Returns:
        What was played of each run, by its directory: ``checkpoints`` (0 where nothing was left to play) and
        ``isolation``.

    Raises:
        UsageError: A run is not there.
        RecordError: A run is damaged, or is being played.

    Examples:
        >>> evopolicygym.post_hoc("latest")
    """
    means = ReplayOptions(workers, isolation=isolation, trusted=trust)
    opened = open_usable_runs(find_places(runs, runs_directory))
    return {run.root: play_post_hoc(run.root, on_episode, means) for run in opened.runs}


def check_environment(name: str | Path) -> tuple[Finding, ...]:
    """Play an environment for some seconds, and check that it keeps its contract.

    Args:
        name: An environment's name, or the path of a spec's ``.toml`` file.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``. An environment that can't be loaded is a finding.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_environment("acrobot"))
    """
    from evopolicygym.checks.environment import check

    return tuple(check(str(name)))


def check_agent(
    name: str,
    *,
    model: str = "",
    options: Mapping[str, Any] | None = None,
    command: Sequence[str] = (),
    patience: float = 300.0,
) -> tuple[Finding, ...]:
    """Check that an agent plays a short run, stops in the middle, resumes, and leaves no process behind.

    Args:
        name: An agent's name, or ``"package.module:make"``.
        model: The agent's model. Default: one that answers from a script and costs nothing.
        options: The agent's options, such as ``model_url``.
        command: The program, where the agent is ``"command"``.
        patience: Seconds that the agent has for each half of its run.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UsageError: There is no such agent, or an option is invalid.

    Examples:
        >>> [finding.name for finding in evopolicygym.check_agent("tuner") if not finding.ok]
    """
    from evopolicygym.checks.agent import check

    return tuple(check(name, model, options, absolutize_paths(command), patience))


def check_executor(name: str, *, address: str = "") -> tuple[Finding, ...]:
    """Have an executor play the same cases as this machine alone, and compare episodes and files.

    Args:
        name: An executor's name, or ``"package.module:Class"``.
        address: The address of its cluster.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UsageError: There is no such executor.

    Examples:
        >>> evopolicygym.check_executor("ray", address="10.0.0.1:6379")
    """
    from evopolicygym.checks.executor import check

    return tuple(check(name, address))


def check_sandbox(name: str, *, channels: bool = False) -> tuple[Finding, ...]:
    """Have hostile policies attack a sandbox backend for a minute; what it guarantees must hold.

    Args:
        name: A backend's name, or ``"package.module:Class"``.
        channels: Whether to search for channels between policies instead.

    Returns:
        The findings; each has ``name``, ``ok``, ``detail``, ``verdict`` and ``promised``. What the backend doesn't
        promise is ok whatever came of it.

    Raises:
        UsageError: There is no such backend.
        SandboxError: The backend can't work here.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_sandbox("bubblewrap"))
    """
    from evopolicygym.checks.sandbox import check, check_channels

    return tuple(check_channels(name) if channels else check(name))
