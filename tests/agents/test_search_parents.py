"""What a search by a model says of where a candidate came from: the one that the model was asked to change."""

from threading import Event

import pytest

from asking import charges
from enclosed import desk
from evopolicygym.agents.kit.evaluator import Evaluator
from evopolicygym.agents.kit.judge_client import JudgeClient
from evopolicygym.agents.kit.model_search import SearchContext
from evopolicygym.agents.kit.neutral_harness.model_client import Transcript
from fakes import OpenRun, RunMaker


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    return new_run()


@pytest.fixture
def context(run: OpenRun) -> SearchContext:
    """A context whose model always answers the same."""
    workspace = desk(run)
    evaluator = Evaluator(workspace, JudgeClient(run.door.address, Event()))
    transcript = Transcript(workspace.transcript)
    return SearchContext(workspace, evaluator, [0], Event(), transcript, lambda _question, _pause: ("better", {}))


def test_the_parent_is_what_the_model_was_asked_about(context: SearchContext, run: OpenRun) -> None:
    """Of the candidates that a question shows, it is the last; a question that shows none names no parent."""
    context.play("1 first\n", [0])
    context.play("2 second\n", [0])
    context.ask("Others:\n2 second\nThis is the policy as it is now:\n1 first\n")
    context.play("3 third\n", [0])
    context.ask("Think of something new.")
    context.play("4 fourth\n", [0])

    assert [one.parent for one in charges(run)] == [None, None, 0, None]


def test_a_candidate_that_is_played_again_is_its_own_parent(context: SearchContext, run: OpenRun) -> None:
    """On further cases it is the same policy, whatever the model was asked meanwhile."""
    context.play("1 first\n", [0])
    context.play("2 second\n", [0])
    context.ask("1 first\n")
    context.play("2 second\n", [0, 1])

    assert [one.parent for one in charges(run)] == [None, None, 1]
