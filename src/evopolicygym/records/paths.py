"""Paths within a run directory. No other package spells these names."""

import re
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.agent import CONVERSATION, MODEL_LOG, NOTES, SYSTEM
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.judge_client.address import ADDRESS_FILE

EPISODES = "episodes"
"""The directory of a submission's episodes, in its feedback."""
SUMMARY = "summary.json"
"""A summary of a submission, in its feedback."""
FILM, SHEET = "video.mp4", "video.png"
"""The film that an agent requested of an episode, and its contact sheet, among the episode's files."""
CHECKPOINT = re.compile(r"[a-z0-9_-]{1,100}", re.ASCII | re.IGNORECASE)
"""Valid names of checkpoints; those taken here are SHA-256s in hexadecimal."""
EXPERIMENT = re.compile(r"[a-z0-9_][a-z0-9._-]{0,99}", re.ASCII | re.IGNORECASE)
"""Valid names of experiments: none leaves its directory, is hidden, or looks like an option."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of one run."""

    root: Path

    @property
    def journal(self) -> Path:
        """The event log: append-only, one event per line."""
        return self.root / "journal.jsonl"

    @property
    def document(self) -> Path:
        """``run.json``, derived from the event log."""
        return self.root / "run.json"

    @property
    def lock(self) -> Path:
        """The file that the process that plays the run keeps locked."""
        return self.root / "lock"

    @property
    def workspace(self) -> Path:
        """The agent's workspace."""
        return self.root / "workspace"

    @property
    def system(self) -> Path:
        """The policy project, which the agent edits."""
        return self.workspace / SYSTEM

    @property
    def notes(self) -> Path:
        """The agent's notes to itself."""
        return self.workspace / NOTES

    @property
    def feedback(self) -> Path:
        """The feedback of all submissions, which the agent reads."""
        return self.workspace / "feedback"

    @property
    def checkpoints(self) -> Path:
        """Content-addressed copies of the policy project."""
        return self.root / "checkpoints"

    @property
    def evaluation(self) -> Path:
        """Validation and held-out episodes; created only after the agent's processes have ended."""
        return self.root / "evaluation"

    @property
    def post_hoc(self) -> Path:
        """``post_hoc.json``: held-out returns of checkpoints played after the score."""
        return self.root / "post_hoc.json"

    @property
    def films(self) -> Path:
        """Films of episodes, drawn on request; they are not evidence."""
        return self.root / "films"

    @property
    def staging(self) -> Path:
        """Files in the making, which the agent can't see until they are renamed into place."""
        return self.root / "staging"

    @property
    def logs(self) -> Path:
        """The agent's transcript and the simulators' output."""
        return self.root / "logs"

    @property
    def transcript(self) -> Path:
        """The output of the agent's program."""
        return self.logs / "agent.log"

    @property
    def agent_logs(self) -> tuple[Path, ...]:
        """The agent's transcript and the log of its model requests."""
        return self.transcript, self.logs / MODEL_LOG

    @property
    def conversation(self) -> Path:
        """The file that names the conversation of the agent's tool (``core.agent.Workspace.conversation``)."""
        return self.transcript.with_name(CONVERSATION)

    @property
    def addresses(self) -> Path:
        """The file with the judge's address while the run is served (``core.agent.Workspace.addresses``)."""
        return self.transcript.with_name(ADDRESS_FILE)

    @property
    def served_workspace(self) -> Path:
        """A file that names the workspace of an external agent, if that isn't the run's own."""
        return self.logs / "served_workspace"

    @property
    def simulator_log(self) -> Path:
        """The output of simulators and sandboxes."""
        return self.logs / "simulators.log"

    @property
    def film_log(self) -> Path:
        """The errors of films that the agent requested and that could not be drawn."""
        return self.logs / "films.log"

    @property
    def workers(self) -> Path:
        """Scratch directories of the workers."""
        return self.staging / "workers"

    def checkpoint(self, name: str) -> Path:
        """Return a checkpoint's directory; raise ``RecordError`` for a name that would lead elsewhere."""
        return self.checkpoints / _checkpoint_name(name)

    def staged_feedback(self, submit_index: int) -> Path:
        """Return the directory in which a submission's feedback is written."""
        return self.staging / submission_name(submit_index)

    def published_feedback(self, submit_index: int) -> Path:
        """Return the directory in which the agent reads a submission's feedback."""
        return self.feedback / submission_name(submit_index)

    def train_episode(self, submit_index: int, number: int) -> Path:
        """Return a train episode's directory, by its number in the run: staged until its feedback is published."""
        staged, published = self.staged_feedback(submit_index), self.published_feedback(submit_index)
        return (staged if staged.is_dir() else published) / EPISODES / episode_name(number)

    def hidden_episode(self, split: Split, checkpoint: str, position: int) -> Path:
        """Return the directory of a validation or held-out episode."""
        return self.evaluation / split.value / _checkpoint_name(checkpoint)[:16] / episode_name(position)


def film_name(split: Split, submit_index: int, checkpoint: str, case: int) -> Path:
    """Return an episode's film as a path below ``films``.

    Films of train episodes are grouped by submission, since a checkpoint can play a case in several submissions.
    """
    group = submission_name(submit_index) if split is Split.TRAIN else _checkpoint_name(checkpoint)[:16]
    return Path(split.value, group, f"case_{case:03d}.mp4")


def _checkpoint_name(name: str) -> str:
    """Return a checkpoint's name; raise ``RecordError`` for a name that would lead elsewhere."""
    if not CHECKPOINT.fullmatch(name):
        raise RecordError(f"Invalid checkpoint name {name!r}: expected letters, digits, '_' and '-'.")
    return name


def submission_name(submit_index: int) -> str:
    """Return the name of a submission's feedback directory."""
    return f"submit_{submit_index:03d}"


def episode_name(number: int) -> str:
    """Return the name of an episode's directory."""
    return f"ep_{number:03d}"


def experiment_directory(runs: Path, experiment: str) -> Path:
    """Return an experiment's directory below the directory of all runs; raise ``UsageError`` for an invalid name."""
    if not EXPERIMENT.fullmatch(experiment):
        raise UsageError(
            f"Invalid experiment name {experiment!r}: expected 1 to 100 letters (a to z), digits, '.', '_' and '-', "
            f"beginning with neither '.' nor '-'."
        )
    return runs / experiment


def run_directory(runs: Path, experiment: str, agent: str, task: str, run_id: str) -> Path:
    """Return a run's directory below the directory of all runs."""
    return experiment_directory(runs, experiment) / _directory_name(agent) / _directory_name(task) / run_id


def _directory_name(name: str) -> str:
    """Return a name, which may be a path or ``package.module:Class``, as a valid directory name."""
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name).strip("-.") or "unnamed"
