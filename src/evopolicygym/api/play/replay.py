"""Replays of records for ``evopolicygym.verify``, and ``evopolicygym.post_hoc``."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.check_result import REPLAY, CheckResult, ReplayVerdict, ReplayWatch, unwatched
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.options import AUTO
from evopolicygym.core.run import Stage
from evopolicygym.records.checked import open_usable_runs
from evopolicygym.records.reader import Paths, RunRecord, find_paths, read_run
from evopolicygym.records.rollback_guard import keep_replayed
from evopolicygym.runs.agent_replay import AgentReplayOptions, replay_agent
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.runs.replay import (
    PostHocResult,
    ReplayedCase,
    ReplayOptions,
    checkpoints_of,
    play_post_hoc,
    verdict_of,
)
from evopolicygym.runs.replay import replay as play_again

AGENT = "agent"
HIDDEN = (Split.VALIDATION, Split.HELD_OUT)
"""Splits that a replay plays, in this order."""


@dataclass(frozen=True, slots=True)
class Replayer:
    """Plays the hidden cases of records again, for ``evopolicygym.verify``."""

    options: ReplayOptions
    watch: ReplayWatch = unwatched
    agent: AgentReplayOptions | None = None
    """The model that is played again; None to leave it."""

    def settle(self, root: Path, audited: Sequence[CheckResult]) -> list[CheckResult]:
        """Return the findings of a record, with that of its replay and of its agent's.

        Raises ``UsageError`` or ``RecordError`` for a record that can't be played again here, such as one of an
        unfinished run.
        """
        record = read_run(root)
        state = record.state
        if state.stage is Stage.FINISHED and state.selected is None:
            nothing = CheckResult(REPLAY, ok=True, detail="nothing to play again: no submission could be scored")
            return [*audited, nothing, *self._settle_agent(record)]
        total = sum(len(checkpoints_of(state, split)) * state.cases(split) for split in HIDDEN)
        played = list(self.watch(play_again(root, self.options, HIDDEN), total))
        verdict, detail = verdict_of(state, played)
        if verdict is ReplayVerdict.SAME:
            keep_replayed(record)
        settled = [_settled(finding) if verdict is not ReplayVerdict.DIFFERENT else finding for finding in audited]
        is_same = verdict is ReplayVerdict.SAME
        replayed = CheckResult(REPLAY, is_same, f"{detail}{_how_played(played)}", verdict=verdict.value)
        return [*settled, replayed, *self._settle_agent(record)]

    def _settle_agent(self, record: RunRecord) -> Iterator[CheckResult]:
        if self.agent is not None:
            yield CheckResult(AGENT, *replay_agent(record, self.agent, self.watch))


def open_replayer(
    workers: int | None,
    executor: str,
    address: str,
    isolation: str,
    trust: bool,  # noqa: FBT001 - as above
    watch: ReplayWatch,
    on_warning: Callable[[str], object],
    model: tuple[str, str] | None = None,
) -> Replayer:
    """Return what replays records with these means, as ``evopolicygym.verify`` has them.

    ``model`` is the address of the server that is asked again, and its key's variable; None: no model is asked.
    """
    agent = AgentReplayOptions(*model) if model else None
    return Replayer(
        ReplayOptions(cap_workers(workers, executor, on_warning), executor, address, isolation, trust), watch, agent
    )


def _settled(finding: CheckResult) -> CheckResult:
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
    paths: Paths = "latest",
    *,
    workers: int | None = None,
    isolation: str = AUTO,
    trust: bool = False,
    runs: str | Path = DEFAULT_RUNS,
    on_episode: Callable[[], object] = lambda: None,
) -> dict[Path, PostHocResult]:
    """Play the held-out cases with every checkpoint of finished runs; scores stay as they are.

    What was played is kept in ``post_hoc.json`` of each run, and is not played again. ``diagnose`` then measures how
    much better another checkpoint would have been.

    Args:
        paths: Runs, or directories with runs below.
        workers: How many episodes play at once; None for one each core.
        isolation: The isolation at which policies play now, whatever the record says.
        trust: Whether to run a simulator that only the record names, with your rights.
        runs: Where runs are looked for by id.
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
    opened = open_usable_runs(find_paths(paths, runs))
    return {run.root: play_post_hoc(run.root, on_episode, means) for run in opened.runs}
