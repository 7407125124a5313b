"""The attack suite: every attack is played against an isolation backend, and held against what that guarantees.

Nothing here is a judge's: no budget, no hidden case. Attacks play on cartpole, one after another, each followed by an
honest policy that must play as if nothing had been.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.checks.attack_suite.attack import LEAK, OK, Attack, attack, attacks
from evopolicygym.checks.attack_suite.decoys import Decoys, decoys_laid, marks
from evopolicygym.checks.inspection import leftover_processes
from evopolicygym.core.rollout import EpisodeJob, Recording
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.levels import choose

HONEST = "P56"
ENVIRONMENT = "cartpole"
LIMITS = Limits(load_s=2.5, reset_s=1.0, act_s=1.0, episode_s=5.0, memory_mb=1024)
"""Short, so that what is meant to run out of time does; still many times what an honest policy takes."""
SHOWN = 60
"""Characters that are shown of a leak."""


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """What came of an attack."""

    status: str
    """Of its submission."""
    endings: tuple[str, ...]
    """How its episodes ended: ``ok`` or the reason of a failure."""
    leaks: tuple[str, ...]
    """What it reached and should not have."""
    left: tuple[str, ...]
    """What of it is still there afterwards."""
    next_ending: str
    """How the episode of the honest policy after it ended."""

    def faults(self, attack: Attack) -> tuple[str, ...]:
        """Return in words what is not as it should be; nothing where the attack was held."""
        ends = sorted(set(self.endings) - attack.endings)
        return (
            *((f"its submission ended with {self.status}",) if self.status != attack.submission else ()),
            *(f"an episode ended with {end}" for end in ends),
            *(leak[:SHOWN] for leak in self.leaks),
            *(f"left behind: {what}" for what in self.left),
            *((f"the next policy ended with {self.next_ending}",) if self.next_ending != OK else ()),
        )


@dataclass(frozen=True, slots=True)
class AttackVerdict:
    """An attack, what came of it, and what follows."""

    attack: Attack
    outcome: AttackOutcome | None
    """None where it was not tried."""
    promised: bool
    """Whether the level promises to hold it."""

    @property
    def faults(self) -> tuple[str, ...]:
        """In words what is not as it should be; nothing where the attack was held, or was not tried."""
        return self.outcome.faults(self.attack) if self.outcome else ()

    @property
    def held(self) -> bool:
        """Whether it came to its safe outcome."""
        return self.outcome is not None and not self.faults

    @property
    def broken(self) -> bool:
        """Whether a promise was."""
        return self.promised and not self.held


def run_attacks(level: str, spec: EnvironmentSpec, which: Sequence[Attack] = ()) -> Iterator[AttackVerdict]:
    """Play the attacks (all, where none is named) against a level; yield what came of each as it ends.

    What a level that guarantees nothing doesn't promise to hold is not tried: nothing would keep it off this machine.
    Raises ``SandboxError`` where the level can't work here at all.
    """
    guarantees = choose(level).backend.guarantees
    with (
        TemporaryDirectory(prefix="evopolicygym-suite-") as place,
        leftover_processes.orphans_adopted(),
        decoys_laid(Path(place)) as decoys,
        LocalExecutor(
            ExecutorConfig(spec, LIMITS, level, Path(place, "workers"), Path(place, "simulators.log"), 1)
        ) as executor,
    ):
        stage = _Stage(executor, spec, decoys, Path(place))
        stage.honest()  # so that all processes are there which are there between policies
        ours = leftover_processes.below(os.getpid())
        for one in which or attacks():
            promised = one.guarantees <= guarantees
            outcome = stage.play(one, len(ours)) if promised or guarantees else None
            leftover_processes.end_adopted(ours)
            yield AttackVerdict(one, outcome, promised)


class _Stage:
    """Where the suite is played."""

    def __init__(self, executor: LocalExecutor, spec: EnvironmentSpec, decoys: Decoys, root: Path) -> None:
        self._executor, self._spec, self._decoys, self._root = executor, spec, decoys, root
        self._count = 0

    def play(self, attack: Attack, usual_processes: int) -> AttackOutcome:
        """Play an attack as a submission would be, then an honest policy."""
        status, endings, leaks = self._submit(attack, attack.episodes)
        reached = [f"{LEAK}: reached the {name} socket" for name in self._decoys.taken()]
        left = leftover_processes.left_beyond(usual_processes)
        kept = (*([f"{left} processes"] if left else []), *sorted(marks()))
        return AttackOutcome(status, endings, (*leaks, *reached), kept, self.honest())

    def honest(self) -> str:
        """Play an honest policy; return how its episode ended."""
        status, endings, _ = self._submit(attack(HONEST), 1)
        return endings[0] if endings else status

    def _submit(self, attack: Attack, episodes: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        self._count += 1
        checkpoint = self._root / f"submission-{self._count}"
        checkpoint.mkdir()
        (checkpoint / "policy.py").write_text(attack.source, encoding="utf-8")
        self._decoys.lay(checkpoint)
        grounds = self._executor.grounds
        schemas = grounds.observation_schema, grounds.action_schema
        context = PolicyContext(self._spec.name, self._count, episodes, 0, self._spec.max_steps, *schemas)
        if error := self._executor.load(checkpoint, context):
            return error.status.value, (), ()
        jobs = [
            EpisodeJob(place, place, place, checkpoint.with_suffix(f".{place}"), Recording.OUTPUT)
            for place in range(episodes)
        ]
        played = dict(self._executor.play(checkpoint, context, jobs, lambda _job, _why: None))
        endings = tuple(one.failure.reason.value if one.failure else OK for one in (played[job] for job in jobs))
        leaks = (line for job in jobs for line in _printed(job) if line.startswith(LEAK))
        return SubmissionStatus.OK.value, endings, tuple(dict.fromkeys(leaks))


def _printed(job: EpisodeJob) -> list[str]:
    if job.directory is None:
        return []
    return (job.directory / "stdout.txt").read_text(encoding="utf-8").splitlines()
