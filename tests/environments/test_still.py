"""A picture of an environment is drawn where it plays, or it is said why there is none."""

from importlib.util import find_spec

import numpy as np
import pytest

import own_pack
from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.environments.derived import bare_spec, pack_spec
from evopolicygym.environments.rendering import render_still
from evopolicygym.specs import pack_catalog


@pytest.mark.skipif(not find_spec("pygame"), reason="pygame, which draws it, is not installed")
def test_a_picture() -> None:
    """A picture shows something, and the same each time."""
    first, again = (render_still(bare_spec("CartPole-v1"), steps=2) for _ in range(2))

    assert (first.ndim, first.shape[2], first.dtype) == (3, 3, np.uint8)
    assert len(np.unique(first)) > 1
    assert np.array_equal(first, again)


def test_a_simulator_that_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator of a pack that draws nothing ends in an error with the words of where it plays."""
    own_pack.lay(monkeypatch)
    pack = pack_catalog.load(own_pack.NAME)
    (blind,) = (task for task in pack.tasks if task.id == "Blind-v0")

    with pytest.raises(EnvironmentFault, match=r"(?s)Blind-v0.*None"):
        render_still(pack_spec(pack, blind), steps=1)
