"""``evopolicygym.load_run`` and ``load_environment``."""

from pathlib import Path

from evopolicygym.api.run import Run
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.environments.environment import Environment
from evopolicygym.records.run_names import named_run
from evopolicygym.specs import catalog


def load_run(run: str | Path = "latest", runs_directory: str | Path = DEFAULT_RUNS) -> Run:
    """Return a run that was played, or is being played.

    Args:
        run: Its directory, its id or the beginning of it, or ``"latest"``.
        runs_directory: Where runs are looked for by id.

    Raises:
        UsageError: There is no such run, or several could be meant.
        RecordError: Its record is damaged.
    """
    return Run(named_run(Path(run), Path(runs_directory)))


def load_environment(name: str | Path) -> Environment:
    """Return an environment: ``reset(seed)``, ``step(action)``, ``observation_space``, ``action_space``, ``spec``.

    It is the environment that policies play in, for looking at it; what is stepped here counts for no run.

    Args:
        name: An environment's name, or the path of a spec's ``.toml`` file.

    Raises:
        UnknownName: There is none of this name.
        MissingExtra: Its simulator is not installed; the message says what installs it.
    """
    return Environment(catalog.load(name))
