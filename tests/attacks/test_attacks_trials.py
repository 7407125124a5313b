"""Attacks that are only checked, never submitted: they must learn and leave no more than those that are charged."""

import json
from collections.abc import Iterator

import pytest

from attacked import LEAK_LINE, AttackedRun, attacked_run
from evopolicygym.checks.sandbox import DECOYS_FILE, OK, Attack, attacks
from whole_runs import all_seeds, numbers

SNOOP = """
import gc
import os
import sys

print(sys.argv, dict(os.environ), os.listdir("."))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        print(env_meta)

    def reset(self, episode_index):
        print(episode_index, [one for one in gc.get_objects() if isinstance(one, dict) and "seed" in one])

    def act(self, obs):
        print(obs.tolist())
        return 0
"""
SHOW = """
class Policy:
    def __init__(self, *given): ...
    def reset(self, episode_index): ...
    def act(self, obs):
        print(obs.tolist())
        return 0
"""
QUIET = [one for one in attacks() if one.submission == OK and one.endings == {OK}]
"""Those that are held without a failure: what they try to reach is not there."""


@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedRun]:
    with attacked_run(request.param, tmp_path_factory.mktemp("attacked")) as opened:
        yield opened


def check(run: AttackedRun, source: str) -> str:
    """Have a policy checked; return all that the judge answers."""
    for path in run.paths.system.iterdir():
        path.unlink()
    (run.paths.system / "policy.py").write_text(source)
    run.decoys.write_addresses(run.paths.system)
    return json.dumps(run.ask("/check", {}))


@pytest.mark.parametrize("hostile", QUIET, ids=lambda one: one.id)
def test_an_attack_that_is_checked(run: AttackedRun, hostile: Attack) -> None:
    """It reaches nothing, costs nothing, and leaves neither process nor file."""
    if (run.session.state.opened.isolation != "bubblewrap") and hostile.guarantees:
        pytest.skip("what holds it is not at this level")
    before = run.session.state.spent
    answer = check(run, hostile.source)

    assert LEAK_LINE.findall(json.loads(answer)["stdout"]) == []
    assert numbers(answer) & all_seeds(run.cases) == set()
    assert run.session.state.spent == before
    run.assert_clean()


def test_a_policy_that_looks_around_while_it_is_checked(run: AttackedRun) -> None:
    """Arguments, environment, files and objects name no seed, no place of the run and no token."""
    answer = check(run, SNOOP)
    token = run.door.address.base_url.rpartition("/")[2]

    assert json.loads(answer)["status"] == "ok"
    assert numbers(answer) & all_seeds(run.cases) == set()
    assert token not in answer
    assert DECOYS_FILE in answer


def test_what_is_seen_while_it_is_checked_is_of_no_case(run: AttackedRun) -> None:
    """The observation is none of those that train cases begin with, before a submission and after one."""
    seen = {json.loads(check(run, SHOW))["stdout"].strip()}
    came = run.submit(SHOW, 8)
    seen |= {json.loads(check(run, SHOW))["stdout"].strip()}
    firsts = {came.text("stdout.txt", local).splitlines()[0] for local in range(8)}

    assert len(seen) == 1
    assert not seen & firsts
