"""What follows the last submission: validation of every candidate, selection, held-out, the score."""

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import CheckpointSelected, RunFinished, RunStatus
from evopolicygym.core.rollout import Recording
from evopolicygym.core.run import Stage
from evopolicygym.core.text import now
from evopolicygym.judge.rollouts import Rollouts
from evopolicygym.records.writer import RunWriter


def finalize(rollouts: Rollouts) -> None:
    """Take a closed run to its score, from wherever its journal stands.

    In which order candidates play decides nothing: none is left out. Who follows the run sees the promising ones first.
    """
    writer = rollouts.writer
    if writer.state.stage is Stage.CLOSED:
        for checkpoint in writer.state.promising:
            evaluate(rollouts, Split.VALIDATION, checkpoint)
        _select(writer)
    if writer.state.stage is Stage.SELECTED and writer.state.selected:
        evaluate(rollouts, Split.HELD_OUT, writer.state.selected.checkpoint)
        _score(writer)
    writer.write_document()


def evaluate(rollouts: Rollouts, split: Split, checkpoint: str) -> None:
    """Play the cases of a hidden split that a checkpoint has not played yet, always in the same order."""
    state, paths = rollouts.writer.state, rollouts.writer.paths
    jobs = [
        rollouts.dealer.job(split, index, index, paths.evaluated(split, checkpoint, index), Recording.ACTIONS)
        for index in state.rollout(split, checkpoint).missing
    ]
    rollouts.play(split, checkpoint, state.context(state.first_with(checkpoint)), jobs)


def _select(writer: RunWriter) -> None:
    choice = writer.state.choice()
    if choice is None:
        writer.record(RunFinished(now(), RunStatus.NO_OK_SUBMIT, logs_sha256=writer.sealed_logs()))
        return
    checkpoint = writer.state.submissions[choice.submit_index].charged.checkpoint
    writer.record(CheckpointSelected(now(), choice.submit_index, checkpoint, choice.validation_mean))


def _score(writer: RunWriter) -> None:
    held_out = writer.state.held_out()
    if held_out is None:
        raise RecordError("Held-out cases are missing at the end of their rollout.")
    evidence = writer.sealed(writer.paths.evaluation)
    logs = writer.sealed_logs()
    writer.record(RunFinished(now(), RunStatus.SCORED, held_out.mean, held_out.standard_error, evidence, logs))
