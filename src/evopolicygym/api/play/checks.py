"""Checks of parts that users write: ``evopolicygym.check_environment``, ``check_agent``, and others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evopolicygym.core.check_result import CheckResult
from evopolicygym.runs.config import absolutize_paths


def check_environment(name: str | Path) -> tuple[CheckResult, ...]:
    """Play an environment for up to half a minute, and check that it keeps its contract.

    Args:
        name: An environment's name, the path of a spec's ``.toml`` file, or an id of gymnasium.

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
    budget: int = 128,
) -> tuple[CheckResult, ...]:
    """Check that an agent plays a short run, stops in the middle, resumes, and leaves no process behind.

    With ``model_url`` in the options of ``neutral``, ``rewrite``, ``openevolve`` or ``gepa``, one request tells how
    the model acts, how fast it is, and how long a run will take.

    Args:
        name: An agent's name, or ``"package.module:make"``.
        model: The agent's model. Default: one that answers from a script and costs nothing.
        options: The agent's options, such as ``model_url``.
        command: The program, where the agent is ``"command"``.
        patience: Seconds that the agent has for each half of its run.
        budget: Episodes of the run whose time is estimated.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UsageError: There is no such agent, or an option is invalid.

    Examples:
        >>> [finding.name for finding in evopolicygym.check_agent("tuner") if not finding.ok]
    """
    from evopolicygym.checks.agent import check

    return tuple(check(name, model, options, absolutize_paths(command), patience, budget=budget))


def check_executor(name: str, *, address: str = "") -> tuple[CheckResult, ...]:
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


def check_sandbox(name: str) -> tuple[CheckResult, ...]:
    """Have hostile policies attack a sandbox backend for a minute; what it guarantees must hold.

    Args:
        name: A backend's name, or ``"package.module:Class"``.

    Returns:
        The findings; each has ``name``, ``ok``, ``detail``, ``verdict`` and ``promised``. What the backend doesn't
        promise is ok whatever came of it.

    Raises:
        UsageError: There is no such backend.
        SandboxError: The backend can't work here.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_sandbox("bubblewrap"))
    """
    from evopolicygym.checks.sandbox import check

    return tuple(check(name))


def check_tracker(name: str) -> tuple[CheckResult, ...]:
    """Have a tracker log a short run that stops in the middle, then the rest of it.

    Args:
        name: A tracker's name, or ``"package.module:make"``.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UnknownName: There is no such tracker.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_tracker("tensorboard"))
    """
    from evopolicygym.checks.tracker import check

    return tuple(check(name))


def check_exporter(name: str) -> tuple[CheckResult, ...]:
    """Have an export format write a short run, write it again, and fail in the middle.

    Args:
        name: A format's name, or ``"package.module:Exporter"``.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UnknownName: There is no such format.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_exporter("csv"))
    """
    from evopolicygym.checks.exporter import check

    return tuple(check(name))


def check_figure(name: str) -> tuple[CheckResult, ...]:
    """Draw a figure of a short run and of none, twice in every format.

    Args:
        name: A figure's name, or ``"package.module:FIGURE"``.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UnknownName: There is no such figure.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_figure("leaderboard"))
    """
    from evopolicygym.checks.figure import check

    return tuple(check(name))


def check_diagnostic(name: str) -> tuple[CheckResult, ...]:
    """Measure a short run and one without submissions by a diagnostic, and sum up one and two runs.

    Args:
        name: A diagnostic's name, or ``"package.module:DIAGNOSTIC"``.

    Returns:
        The findings; each has ``name``, ``ok`` and ``detail``.

    Raises:
        UnknownName: There is no such diagnostic.

    Examples:
        >>> all(finding.ok for finding in evopolicygym.check_diagnostic("edits"))
    """
    from evopolicygym.checks.diagnostic import check

    return tuple(check(name))
