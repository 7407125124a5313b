"""Where things lie in a run's directory. No other room spells these names."""

import re
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.agent import MODEL_LOG, NOTES, SYSTEM
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError

EPISODES = "episodes"
"""The directory of a submission's episodes, in its feedback."""
SUMMARY = "summary.json"
"""What a submission's feedback says in short."""
FILM, SHEET = "video.mp4", "video.png"
"""The film that an agent asked for of an episode, and its contact sheet, among the episode's files."""
CHECKPOINT = re.compile(r"[a-z0-9_-]{1,100}", re.ASCII | re.IGNORECASE)
"""What a checkpoint may be named; ours are SHA-256s in hexadecimal."""
EXPERIMENT = re.compile(r"[a-z0-9_][a-z0-9._-]{0,99}", re.ASCII | re.IGNORECASE)
"""What an experiment may be named: nothing that lies elsewhere, is hidden, or looks like an option."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The places of one run."""

    root: Path

    @property
    def journal(self) -> Path:
        """The truth: append-only, one event a line."""
        return self.root / "journal.jsonl"

    @property
    def document(self) -> Path:
        """``run.json``, derived from the journal."""
        return self.root / "run.json"

    @property
    def lock(self) -> Path:
        """Locked by the process that plays the run."""
        return self.root / "lock"

    @property
    def workspace(self) -> Path:
        """What the agent is given."""
        return self.root / "workspace"

    @property
    def system(self) -> Path:
        """The policy project, the agent's to edit."""
        return self.workspace / SYSTEM

    @property
    def notes(self) -> Path:
        """What the agent writes down for itself."""
        return self.workspace / NOTES

    @property
    def feedback(self) -> Path:
        """What submissions leave for the agent to read."""
        return self.workspace / "feedback"

    @property
    def checkpoints(self) -> Path:
        """Content-addressed copies of the policy project."""
        return self.root / "checkpoints"

    @property
    def evaluation(self) -> Path:
        """Validation and held-out episodes; appears only after the agent is gone."""
        return self.root / "evaluation"

    @property
    def post_hoc(self) -> Path:
        """``post_hoc.json``: held-out returns of checkpoints played after the score, where somebody had them played."""
        return self.root / "post_hoc.json"

    @property
    def films(self) -> Path:
        """Films of episodes, where somebody had them made; no part of the record's evidence."""
        return self.root / "films"

    @property
    def staging(self) -> Path:
        """What is being made: out of the agent's sight until it is renamed into place."""
        return self.root / "staging"

    @property
    def logs(self) -> Path:
        """The agent's transcript, the simulators' output."""
        return self.root / "logs"

    @property
    def transcript(self) -> Path:
        """What the agent's program printed."""
        return self.logs / "agent.log"

    @property
    def agent_logs(self) -> tuple[Path, ...]:
        """What is kept of the agent's doing: its transcript and the log of its requests to its model."""
        return self.transcript, self.logs / MODEL_LOG

    @property
    def served_workspace(self) -> Path:
        """Names the directory that an agent from outside works in, where that is not the record's own workspace."""
        return self.logs / "served_workspace"

    @property
    def simulator_log(self) -> Path:
        """What simulators and sandboxes printed."""
        return self.logs / "simulators.log"

    @property
    def film_log(self) -> Path:
        """Why films that the agent asked for could not be made."""
        return self.logs / "films.log"

    @property
    def workers(self) -> Path:
        """Scratch of the rollout's workers."""
        return self.staging / "workers"

    def checkpoint(self, name: str) -> Path:
        """Return where a checkpoint of this name lies; raise ``RecordError`` for a name that would lie elsewhere."""
        return self.checkpoints / _checkpoint_name(name)

    def staged(self, submit_index: int) -> Path:
        """Return where a submission's feedback is made."""
        return self.staging / submission_name(submit_index)

    def published(self, submit_index: int) -> Path:
        """Return where a submission's feedback is read."""
        return self.feedback / submission_name(submit_index)

    def trained(self, submit_index: int, number: int) -> Path:
        """Return where a train episode's files lie now, by its number in the run; staged until it is published."""
        staged, published = self.staged(submit_index), self.published(submit_index)
        return (staged if staged.is_dir() else published) / EPISODES / episode_name(number)

    def evaluated(self, split: Split, checkpoint: str, position: int) -> Path:
        """Return where a hidden episode's files go."""
        return self.evaluation / split.value / _checkpoint_name(checkpoint)[:16] / episode_name(position)


def film_name(split: Split, submit_index: int, checkpoint: str, case: int) -> Path:
    """Return where an episode's film lies below ``films``.

    Train episodes lie by submission, since one checkpoint can play one case in several of them.
    """
    whose = submission_name(submit_index) if split is Split.TRAIN else _checkpoint_name(checkpoint)[:16]
    return Path(split.value, whose, f"case_{case:03d}.mp4")


def _checkpoint_name(name: str) -> str:
    """Return a checkpoint's name; raise ``RecordError`` for one that would lie elsewhere."""
    if not CHECKPOINT.fullmatch(name):
        raise RecordError(f"{name!r} is not a valid checkpoint name: expected letters, digits, '_' and '-'.")
    return name


def submission_name(submit_index: int) -> str:
    """Return the directory's name of a submission's feedback."""
    return f"submit_{submit_index:03d}"


def episode_name(number: int) -> str:
    """Return the directory's name of an episode."""
    return f"ep_{number:03d}"


def experiment_directory(runs: Path, experiment: str) -> Path:
    """Return where an experiment lies below the directory of all runs; raise ``UsageError`` for what is no name."""
    if not EXPERIMENT.fullmatch(experiment):
        raise UsageError(
            f"An experiment can't be named {experiment!r}: a name has 1 to 100 letters (a to z), digits, '.', '_' and "
            f"'-', and begins with neither '.' nor '-'."
        )
    return runs / experiment


def run_directory(runs: Path, experiment: str, agent: str, task: str, run_id: str) -> Path:
    """Return where a run lies below the directory of all runs."""
    return experiment_directory(runs, experiment) / _plain(agent) / _plain(task) / run_id


def _plain(name: str) -> str:
    """Return a name, which may be a path or ``package.module:Class``, as one that a directory can have."""
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name).strip("-.") or "unnamed"
