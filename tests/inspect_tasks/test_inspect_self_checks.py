"""Inspect AI's own checks of a sandbox, on ours. Needs bubblewrap, and the one version of Inspect that has them."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator

import pytest

from enclosed import desk, needs_bubblewrap
from evopolicygym.agents.kit.program import run_workplace
from fakes import OpenRun, open_run

pytest.importorskip("inspect_ai", reason="inspect-ai isn't installed; the extra 'inspect' brings it")

from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox import self_check

from evopolicygym.inspect_tasks.sandbox import RunSandbox
from whole_runs import state_kept_in

pytestmark = needs_bubblewrap
Check = Callable[[RunSandbox], Awaitable[None]]
CHECKS: list[str] = self_check.__all__
TIMED = {"test_exec_timeout", "test_exec_timeout_kills_process", "test_exec_timeout_kills_child_processes"}
"""Wait for seconds to pass."""
OTHER_USERS = {"test_exec_as_user"}
"""Needs root inside, and other users: there is one user, without any privilege."""


class OpenWorkplace:
    """Stands for a run whose agent's turn lasts."""

    def __init__(self, run: OpenRun) -> None:
        self.workplace = run_workplace(desk(run), run.door)


class Playing:
    """Stands for a sample that is being played."""

    def __init__(self, hosted: OpenWorkplace) -> None:
        self.hosted = hosted


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunSandbox]:
    """Give a sandbox whose commands begin in a directory that can be written."""
    place = tmp_path_factory.mktemp("self_checks")
    with state_kept_in(place / "state"), open_run(place / "run", {}) as run:
        opened = OpenWorkplace(run)
        with opened.workplace:
            yield RunSandbox(Playing(opened), "/tmp")  # type: ignore[arg-type] # noqa: S108 - the sandbox's own


def test_how_many_there_are() -> None:
    """All of Inspect's checks are run here, and none of it is of another number than was seen."""
    assert len(CHECKS) == 44


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name in TIMED)) for name in sorted(set(CHECKS) - OTHER_USERS)],
)
def test_self_check(name: str, sandbox: RunSandbox) -> None:
    """Our sandbox does what Inspect's check of this name asks."""
    check: Check = getattr(self_check, name)

    assert inspect.iscoroutinefunction(check)
    asyncio.run(check(sandbox))


@pytest.mark.parametrize("name", sorted(OTHER_USERS))
def test_other_users(name: str, sandbox: RunSandbox) -> None:
    """What needs root inside is refused as Inspect wants it refused."""
    with pytest.raises(SandboxUserUnsupportedError):
        asyncio.run(getattr(self_check, name)(sandbox))
