"""The run that tests of exports read: it is played once, and no test changes it."""

import pytest

from whole_runs import Told, config, played, state_kept_in


@pytest.fixture(scope="session")
def cartpole_run(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return a finished run on cartpole, in ``runs`` beside the ``state`` that holds its secret."""
    place = tmp_path_factory.mktemp("export")
    with state_kept_in(place / "state"):
        return played(config(place / "runs"))
