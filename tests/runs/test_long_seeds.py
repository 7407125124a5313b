"""Private experiments that begin now draw seeds of 128 bits; published splits and older experiments keep theirs."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from evopolicygym.core.cases import PUBLIC_KEY, Split, SplitSource, derive, short_seed
from evopolicygym.core.directories import state_directory
from evopolicygym.environments.environment import Environment
from evopolicygym.records import experiment
from evopolicygym.specs import catalog
from simulators import Plain, spec

LONG = 1 << 127 | 5


class Short(Plain):
    """Refuses seeds of more than 32 bits, as every simulator does that makes a ``RandomState`` of one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation + np.random.RandomState(seed).randint(9), info


gymnasium.register("Short-v0", entry_point=Short)


def test_new_private_seeds_are_long(tmp_path: Path) -> None:
    """A seed has 128 bits, more than a policy could try; its first 31 are those of no other case."""
    owner = experiment.begin(tmp_path, "a")
    seeds = [seed for split in owner.cases("toy", SplitSource.PRIVATE).seeds.values() for seed in split]

    assert max(seeds).bit_length() == 128
    assert sum(seed.bit_length() <= 96 for seed in seeds) == 0
    assert len({short_seed(seed) for seed in seeds}) == len(seeds)


def test_published_seeds_stay_short(tmp_path: Path) -> None:
    """The published split is what it was."""
    owner = experiment.begin(tmp_path, "a")

    assert owner.cases("toy", SplitSource.PUBLIC) == derive(PUBLIC_KEY, "toy")
    assert max(owner.cases("toy", SplitSource.PUBLIC).seeds[Split.HELD_OUT]).bit_length() <= 31


def test_an_older_experiment_keeps_its_cases(tmp_path: Path) -> None:
    """An experiment whose secret was kept before seeds were long is played with the cases that it committed to."""
    owner = experiment.begin(tmp_path, "a")
    file = state_directory() / owner.identity / "secret.json"
    file.write_text(json.dumps({"secret": owner.secret.hex()}))

    assert experiment.begin(tmp_path, "a").cases("toy", SplitSource.PRIVATE) == derive(owner.secret, "toy")


def test_revealed_cases_are_those_that_were_played(tmp_path: Path) -> None:
    """Whoever has the revealed secret derives the same long seeds."""
    owner = experiment.begin(tmp_path, "a")
    run = experiment.reveal(tmp_path, "a").parent / "agent" / "task" / "run"
    run.mkdir(parents=True)
    known = experiment.revealed(run, owner.identity)

    assert known is not None
    assert known.cases("toy", SplitSource.PRIVATE) == owner.cases("toy", SplitSource.PRIVATE)


def test_a_simulator_that_refuses_long_seeds() -> None:
    """It is given the first 31 bits, and plays the same episode each time."""
    plain, short = Environment(spec("Plain")), Environment(spec("Short"))

    assert (plain.seed_bits(), short.seed_bits()) == (128, 31)
    assert np.array_equal(short.reset(LONG), short.reset(LONG >> 97))


@pytest.mark.parametrize("name", ["acrobot", "cartpole", "continuous_car", "pendulum"])
def test_simulators_take_long_seeds(name: str) -> None:
    """What every installation has takes all 128 bits: seeds that differ in the last one play other episodes."""
    environment = Environment(catalog.load(name))

    assert environment.seed_bits() == 128
    assert not np.array_equal(environment.reset(LONG), environment.reset(LONG + 1))


@pytest.mark.nightly
@pytest.mark.parametrize("name", catalog.names())
def test_core_simulators_take_long_seeds(name: str) -> None:
    """Every simulator of Core16 takes all 128 bits."""
    environment = Environment(catalog.load(name))
    environment.reset(0)

    assert environment.seed_bits() == 128
    environment.close()
